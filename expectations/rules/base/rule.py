"""What a rule is: one offence, judged on the facts of one connection.

A rule reads facts and never parses. It is told each observation of a connection in stream order,
after the conversation has taken it in, and answers with judgements. What it must remember between
two observations stands in its own `State`, so that the state of a connection can be stored.

A rule's file is its page: the docstring of the class is published as it stands.
"""

from __future__ import annotations

import enum
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from decoders.frame.record import Kind

if TYPE_CHECKING:
    from expectations.conversation.conversation import Conversation
    from expectations.conversation.observation import Observation


REQUESTS = frozenset({Kind.REQUEST})
RESPONSES = frozenset({Kind.RESPONSE})
FRAMES = REQUESTS | RESPONSES


class Level(enum.StrEnum):
    """How much an offence weighs: a must, a should, or worth knowing."""

    VIOLATION = "violation"
    IMPROVEMENT = "improvement"
    INFORMATION = "information"


class Role(enum.StrEnum):
    """Who is at fault. SENDER stands for a rule that binds both; its findings say which of them it was."""

    CLIENT = "client"
    BROKER = "broker"
    SENDER = "sender"


class Verdict(enum.StrEnum):
    """The outcome of one check. UNDECIDED: it depends on something that was not seen."""

    CONFORMS = "conforms"
    VIOLATES = "violates"
    UNDECIDED = "undecided"


class Spec(enum.StrEnum):
    """Which reading of a KIP applies.

    SHIPPED is what released Kafka does, TEXT the KIP as written. TAGGED is the later revision of
    KIP-1313, in which request header 3 carries the instance ID as a tagged field.
    """

    SHIPPED = "shipped"
    TEXT = "text"
    TAGGED = "tagged"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule says of one opportunity, or of `count` equal ones.

    `context` holds every part of the message that varies, by name. `level` and `role` are given only
    where they differ from the rule's own. `subject` is the observation that offends, where it is not the one
    the rule was just told of.
    """

    verdict: Verdict
    count: int = 1
    expected: str = ""
    observed: str = ""
    context: dict[str, str] = field(default_factory=dict)
    level: Level | None = None
    subject: Observation | None = None
    role: Role | None = None


class NoState(msgspec.Struct):
    """The state of a rule that needs none."""


class Rule(ABC):
    """One rule. Its id follows from its file: `kip_1313/instance_id_zero.py` is `kip1313/instance-id-zero`.

    `family` is the id's first part, `state_name` the id as the name of a field. `section` names the
    place in the KIP and `requirement` says what it demands, in our own words. `message` is one line
    with the names of the context in braces. `implies` names the other rules that the same offence
    breaks, always or sometimes. A rule is made for one reading of its KIP.

    `hears` says which kinds of observations it is told of, and `apis`, where it is given, of which APIs
    it is told requests and answers. One that `needs_header_v3` is told nothing as long as the connection has
    not used that header. The rest they would pass over. Where a clean frame (`Observation.is_clean`) conforms
    to a rule, whatever was said before, it `passes_clean`: the rule is not asked.
    """

    id: ClassVar[str]
    family: ClassVar[str]
    state_name: ClassVar[str]
    kip: ClassVar[str]
    section: ClassVar[str]
    requirement: ClassVar[str]
    message: ClassVar[str]
    level: ClassVar[Level]
    role: ClassVar[Role]
    implies: ClassVar[tuple[str, ...]] = ()
    hears: ClassVar[frozenset[Kind]] = frozenset(Kind)
    apis: ClassVar[frozenset[int] | None] = None
    needs_header_v3: ClassVar[bool] = False
    passes_clean: ClassVar[bool] = False
    State: ClassVar[type[msgspec.Struct]] = NoState

    def __init__(self, spec: Spec = Spec.SHIPPED) -> None:
        self.spec = spec

    def __init_subclass__(cls) -> None:
        """Name the rule after its file."""
        *_, family, offence = cls.__module__.split(".")
        cls.family = family.replace("_", "")
        cls.id = f"{cls.family}/{offence.replace('_', '-')}"
        cls.state_name = cls.id.replace("/", "_").replace("-", "_")
        cls.kip = family.upper().replace("_", "-") if family.startswith("kip_") else family

    @property
    def page(self) -> str:
        """The rule's page, as its file tells it, and what else the offence may break."""
        told = inspect.cleandoc(type(self).__doc__ or "")
        if not self.implies:
            return told
        return f"{told}\n\nThe same offence may also break {', '.join(self.implies)}."

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


@functools.lru_cache(maxsize=1_000)
def _equal(verdict: Verdict, count: int) -> Judgement:
    return Judgement(verdict, count)


def conforms(count: int = 1) -> Judgement:
    """`count` opportunities to offend were not taken."""
    return _equal(Verdict.CONFORMS, count)


def undecided(count: int = 1) -> Judgement:
    """`count` opportunities could not be judged."""
    return _equal(Verdict.UNDECIDED, count)
