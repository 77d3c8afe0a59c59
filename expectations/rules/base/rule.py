"""What a rule is: one offence, judged on the facts of one connection.

A rule reads facts and never parses. It is called with each observation of a connection in stream
order, after the conversation has processed it, and yields judgements. What it remembers between two
observations is in its own `State`, so that the state of a connection can be stored.

A rule's file is its page: the docstring of the class is published unchanged.
"""

from __future__ import annotations

import enum
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation

REQUESTS = frozenset({Kind.REQUEST})
RESPONSES = frozenset({Kind.RESPONSE})
FRAMES = REQUESTS | RESPONSES
LOSSES = frozenset({Kind.GAP, Kind.INVALID_SIZE})
AFTER_OPENING = FRAMES | LOSSES | {Kind.CLOSED}
"""What may hide frames."""


class Level(enum.StrEnum):
    """How much an offence weighs: it breaks a requirement, breaks a recommendation, or is worth knowing."""

    VIOLATION = "violation"
    IMPROVEMENT = "improvement"
    INFORMATION = "information"


class Role(enum.StrEnum):
    """Who is at fault. SENDER marks a rule that binds both; each of its findings names CLIENT or BROKER."""

    CLIENT = "client"
    BROKER = "broker"
    SENDER = "sender"


class Verdict(enum.StrEnum):
    """The outcome of one check. UNDECIDED: the outcome depends on something that was not seen."""

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
    """The verdict on one opportunity to offend, or on `count` equal ones.

    `context` holds the parts of the message that vary, by name. `level` and `role` are set only where
    they differ from the rule's own. `subject` is the observation that offends, if it is not the one
    being judged.
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
    breaks, always or sometimes. A rule is made for one reading of its KIP, `spec`.

    Eight attributes say which observations need not be judged, so that the judge can skip the rule:

    - `kinds`: the kinds of observations that the rule judges.
    - `apis`: the APIs whose requests and responses it judges; None for all.
    - `not_apis`: APIs whose requests and responses it does not judge.
    - `needs_header_v3`: the rule judges nothing until the connection has used request header 3.
    - `on_header_v3`: of the requests whose header is certain, it judges only those on request header 3 (True)
      or only those on an older one (False); None for all.
    - `after_error`: it judges nothing until a response to ApiVersions has given an error after which a client
      leaves the connection (`Negotiation.errors`).
    - `passes_clean`: a clean frame (`Observation.is_clean`) conforms, whatever the connection's facts are,
      and is counted without calling the rule.
    - `only_given_up`: of a request that has a body it judges only what that request makes the negotiation
      give up.

    A rule that sets `needs_body` judges only statements that have a body that rules read. Others of its APIs
    may then be cached like those of APIs that no rule names.

    A rule that reads `conversation.progress` declares `uses_progress`: its verdicts are never cached.

    A field `sequence` of a rule's `State` is the sequence of a frame of the connection. A rule only compares
    it with others: connections on which sequences are in the same order share cached verdicts.
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
    kinds: ClassVar[frozenset[Kind]] = AFTER_OPENING
    apis: ClassVar[frozenset[int] | None] = None
    not_apis: ClassVar[frozenset[int]] = frozenset()
    needs_header_v3: ClassVar[bool] = False
    on_header_v3: ClassVar[bool | None] = None
    after_error: ClassVar[bool] = False
    passes_clean: ClassVar[bool] = False
    only_given_up: ClassVar[bool] = False
    needs_body: ClassVar[bool] = False
    uses_progress: ClassVar[bool] = False
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
        """The docstring of the rule's class, and the rules that the same offence may break."""
        written = inspect.cleandoc(type(self).__doc__ or "")
        if not self.implies:
            return written
        return f"{written}\n\nThe same offence may also break {', '.join(self.implies)}."

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page.splitlines()[0]

    @abstractmethod
    def judge(self, observation: Observation, conversation: Conversation, state: Any) -> Iterator[Judgement]:
        """Judge one observation, which the conversation has already processed."""

    def close(self, conversation: Conversation, state: Any) -> Iterator[Judgement]:
        """Judge what is still pending when the connection closes."""
        yield from ()


@functools.lru_cache(maxsize=1_000)
def _equal(verdict: Verdict, count: int) -> Judgement:
    return Judgement(verdict, count)


def conforms(count: int = 1) -> Judgement:
    """Return the judgement that `count` opportunities to offend were not taken."""
    return _equal(Verdict.CONFORMS, count)


def undecided(count: int = 1) -> Judgement:
    """Return the judgement that `count` opportunities cannot be decided."""
    return _equal(Verdict.UNDECIDED, count)
