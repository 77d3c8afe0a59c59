"""What a rule is: one offence, judged on the facts of one connection.

A rule reads facts and never parses. It is told each observation of a connection in stream order,
after the conversation has taken it in, and answers with judgements. What it must remember between
two observations stands in its own `State`, so that the state of a connection can be stored.

A rule's file is its page: the docstring of the class is published as it stands.
"""

from __future__ import annotations

import enum
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from expectations.conversation.conversation import Conversation
    from expectations.conversation.observation import Observation


class Level(enum.StrEnum):
    """How much an offence weighs: a must, a should, or worth knowing."""

    VIOLATION = "violation"
    IMPROVEMENT = "improvement"
    INFORMATION = "information"


class Role(enum.StrEnum):
    """Who is at fault."""

    CLIENT = "client"
    BROKER = "broker"


class Verdict(enum.StrEnum):
    """The outcome of one check. UNDECIDED: it depends on something that was not seen."""

    CONFORMS = "conforms"
    VIOLATES = "violates"
    UNDECIDED = "undecided"


class Spec(enum.StrEnum):
    """Which reading of a KIP applies: what released Kafka does, or the KIP as written."""

    SHIPPED = "shipped"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule says of one opportunity, or of `count` equal ones.

    `context` holds every part of the message that varies, by name. `level` is given only where it
    differs from the rule's own. `subject` is the observation that offends, where it is not the one
    the rule was just told of.
    """

    verdict: Verdict
    count: int = 1
    expected: str = ""
    observed: str = ""
    context: dict[str, str] = field(default_factory=dict)
    level: Level | None = None
    subject: Observation | None = None


class NoState(msgspec.Struct):
    """The state of a rule that needs none."""


class Rule(ABC):
    """One rule. Its id follows from its file: `kip_1313/instance_id_zero.py` is `kip1313/instance-id-zero`.

    `state_name` is the id as the name of a field. `section` names the place in the KIP and
    `requirement` says what it demands, in our own words.
    `message` is one line with the names of the context in braces.
    """

    id: ClassVar[str]
    state_name: ClassVar[str]
    kip: ClassVar[str]
    section: ClassVar[str]
    requirement: ClassVar[str]
    message: ClassVar[str]
    level: ClassVar[Level]
    role: ClassVar[Role]
    spec: ClassVar[Spec] = Spec.SHIPPED
    State: ClassVar[type[msgspec.Struct]] = NoState

    def __init_subclass__(cls) -> None:
        """Name the rule after its file."""
        *_, family, offence = cls.__module__.split(".")
        cls.id = f"{family.replace('_', '')}/{offence.replace('_', '-')}"
        cls.state_name = cls.id.replace("/", "_").replace("-", "_")
        cls.kip = family.upper().replace("_", "-") if family.startswith("kip_") else family

    @property
    def page(self) -> str:
        """The rule's page, as its file tells it."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.splitlines()[0]

    @abstractmethod
    def judge(self, observation: Observation, conversation: Conversation, state: Any) -> Iterator[Judgement]:
        """Judge one observation, which the conversation has already taken in."""

    def close(self, conversation: Conversation, state: Any) -> Iterator[Judgement]:
        """Judge what was left pending when the connection closed."""
        yield from ()


def conforms(count: int = 1) -> Judgement:
    """`count` opportunities to offend were not taken."""
    return Judgement(Verdict.CONFORMS, count)


def undecided(count: int = 1) -> Judgement:
    """`count` opportunities could not be judged."""
    return Judgement(Verdict.UNDECIDED, count)
