"""Rules: each is one offence, judged on the facts of one connection, or on what several claim.

A rule reads facts and never parses. It is asked about the observations of a connection in stream order, after
the conversation has processed each, and yields judgements:

    observation         method            asked about
    OPENED              `on_opening`      the beginning of the connection, as far as it was seen
    REQUEST             `on_request`      a request, or equal ones that were folded
    RESPONSE            `on_response`     a response, or equal ones that were folded
    GAP, INVALID_SIZE   `on_loss`         bytes that were lost, or cannot be cut into frames
    NOT_KAFKA           `on_foreign`      a connection that begins with no request
    CLOSED              `close`           what is still pending when the connection closes

A rule has the methods that it needs; `Rule.kinds` follows from them. What it remembers from one call to the
next is in its own `State`, so that the state of a connection can be stored.

An `IdentityRule` compares one claim on an identity with all other known claims on it. Its judgement must
depend on the claims alone, not on the order in which they arrived.

A rule's file is its page: the docstring of the class is published unchanged.
"""

from __future__ import annotations

import enum
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason

FRAMES: Final = frozenset({Kind.REQUEST, Kind.RESPONSE})
METHODS: Final[Mapping[Kind, str]] = {
    Kind.OPENED: "on_opening",
    Kind.REQUEST: "on_request",
    Kind.RESPONSE: "on_response",
    Kind.GAP: "on_loss",
    Kind.INVALID_SIZE: "on_loss",
    Kind.NOT_KAFKA: "on_foreign",
}
"""The method of a rule that judges each kind of observation."""
PACK: Final = "kipwatch_"
"""How the name of a package with rules of others begins; the rest is the first part of their IDs."""


class Level(enum.StrEnum):
    """How much an offence weighs: it breaks a requirement, breaks a recommendation, or is worth knowing.

    `expectations/requirements/README.md` says which recommendations are only worth knowing.
    """

    VIOLATION = "violation"
    IMPROVEMENT = "improvement"
    INFORMATION = "information"


_GRAVEST_FIRST: Final = list(Level)


def gravity(level: str) -> int:
    """Return the rank of a level, which may be text: 0 for the gravest. Raises ValueError for no level."""
    return _GRAVEST_FIRST.index(Level(level))


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

    @classmethod
    def of(cls, ruling: str) -> Verdict:
        """Return the verdict of a ruling, which may be that of another process, as text."""
        return cls.UNDECIDED if ruling in _REASONS else cls(ruling)


Ruling = Verdict | Reason
"""What checks are counted by: a verdict, or the reason in the place of UNDECIDED."""
_REASONS: Final = frozenset(Reason)


class Spec(enum.StrEnum):
    """Which reading of a KIP applies.

    SHIPPED is what released Kafka does, TEXT the KIP as written. TAGGED is the later revision of
    KIP-1313, in which request header v3 carries the instance ID as a tagged field.
    """

    SHIPPED = "shipped"
    TEXT = "text"
    TAGGED = "tagged"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one opportunity to offend, or on `count` equal ones.

    `context` holds the parts of the message that vary, by name, without `api` and `version`, which are the
    offending frame's. `level` and `role` are set only where they differ from the rule's own. `subject` is the
    observation that offends, if it is not the one being judged. An undecided one has a `reason`.
    """

    verdict: Verdict
    count: int = 1
    expected: str = ""
    observed: str = ""
    context: dict[str, str] = field(default_factory=dict)
    level: Level | None = None
    subject: Observation | None = None
    role: Role | None = None
    reason: Reason | None = None

    @property
    def ruling(self) -> Ruling:
        """The verdict, or the reason why it is undecided."""
        return self.reason or self.verdict


Judgements = Iterable[Judgement]
"""What a method of a rule yields, or returns."""


class NoState(msgspec.Struct):
    """The state of a rule that needs none."""


class Rule(ABC):
    """One rule. Its ID follows from its file: `kip_1313/instance_id_zero.py` is `kip1313/instance-id-zero`.

    `kipwatch_acme/team_unknown.py`, in a pack of others, is `acme/team-unknown`.

    `family` is the ID's first part, `state_name` the ID as the name of a field. `section` names the
    place in the KIP and `requirement` says what it demands, in our own words. `needs` says what must be
    seen for the rule to have something to judge. `message` is one line with the names of the context in
    braces; `{api}` and `{version}` are the offending frame's. `implies` names the other rules that the same
    offence breaks, always or sometimes. A rule is made for one reading of its KIP, `spec`. `runbook` is the
    address of its page and of those beside it.

    `kinds` are the kinds of observations that the rule has methods for. Three attributes save calls and
    decide nothing: if the methods were called all the same, their verdicts would not change.

    - `apis`: the APIs whose requests and responses it judges; None for all.
    - `needs_header_v3`: it judges nothing until the connection has used request header v3.
    - `passes_clean`: a clean frame (`Observation.is_clean`) conforms, whatever the connection's facts are.

    The types of a rule's `State` say which of its values are the connection's own, such as sequences and IDs
    (`expectations/conversation/own_values.py`). Connections that differ in nothing else share verdicts.
    """

    id: ClassVar[str]
    family: ClassVar[str]
    state_name: ClassVar[str]
    kip: ClassVar[str]
    section: ClassVar[str]
    requirement: ClassVar[str]
    needs: ClassVar[str]
    message: ClassVar[str]
    level: ClassVar[Level]
    role: ClassVar[Role]
    implies: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[frozenset[Kind]] = frozenset()
    apis: ClassVar[frozenset[int] | None] = None
    needs_header_v3: ClassVar[bool] = False
    passes_clean: ClassVar[bool] = False
    runbook: ClassVar[str] = "docs/runbook.md"
    State: ClassVar[type[msgspec.Struct]] = NoState

    def __init__(self, spec: Spec = Spec.SHIPPED) -> None:
        self.spec = spec

    def __init_subclass__(cls) -> None:
        """Name the rule after its file, and find out what it judges."""
        *_, family, offence = cls.__module__.split(".")
        family = family.removeprefix(PACK)
        cls.family = family.replace("_", "")
        cls.id = f"{cls.family}/{offence.replace('_', '-')}"
        cls.state_name = cls.id.replace("/", "_").replace("-", "_")
        cls.kip = family.upper().replace("_", "-") if family.startswith("kip_") else family
        cls.kinds = frozenset(
            kind for kind, name in METHODS.items() if getattr(cls, name) is not getattr(Rule, name)
        )

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

    def on_opening(self, opening: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge the beginning of the connection, or of what was seen of it."""
        return ()

    def on_request(self, request: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge `request.count` equal requests."""
        return ()

    def on_response(self, response: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge `response.count` equal responses."""
        return ()

    def on_loss(self, loss: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge what is pending when frames are lost: a gap, or a length that no frame has."""
        return ()

    def on_foreign(self, opening: Observation, conversation: Conversation, state: Any) -> Judgements:
        """Judge a connection that does not begin with a request."""
        return ()

    def close(self, conversation: Conversation, state: Any) -> Judgements:
        """Judge what is still pending when the connection closes."""
        return ()


class IdentityRule(Rule):
    """A rule about the claims of one kind of identity, or of several, each judged by itself.

    A rule that `waits` accuses because something did not happen, so it is asked only after later claims
    had time to arrive. Any other rule accuses because of what did happen. A later claim may only change who
    of two came first (`came_second`), if it is of an earlier connection. A rule that waits only for some
    claims overrides `waits_for`. The only claim of what clients show is judged when it is settled, whether
    the rule waits or not.

    A rule on claims of several kinds names the others in `further_kinds`. To most of these rules one
    connection alone is no opportunity to offend; a rule that also judges a single connection has methods for
    its observations.
    """

    kind: ClassVar[IdentityKind]
    further_kinds: ClassVar[frozenset[IdentityKind]] = frozenset()
    waits: ClassVar[bool] = False

    def waits_for(self, claim: Claim) -> bool:
        """Whether later claims may clear what a claim shows."""
        return self.waits

    @classmethod
    def judges(cls, kind: IdentityKind) -> bool:
        """Whether the rule judges claims of a kind."""
        return kind is cls.kind or kind in cls.further_kinds

    def concerns(self, claim: Claim) -> bool:
        """Whether a claim may be an opportunity to offend, whatever the others are."""
        return True

    @abstractmethod
    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a claim that concerns the rule against all others of its identity.

        These are ordered by their beginning. Returns None if the claim is no opportunity to offend.
        """


_CONFORMS: Final = Judgement(Verdict.CONFORMS)
_UNDECIDED: Final = {reason: Judgement(Verdict.UNDECIDED, reason=reason) for reason in Reason}


def conforms(count: int = 1) -> Judgement:
    """Return the judgement that `count` opportunities to offend were not taken."""
    return _CONFORMS if count == 1 else Judgement(Verdict.CONFORMS, count)


def undecided(reason: Reason, count: int = 1) -> Judgement:
    """Return the judgement that `count` opportunities cannot be decided, and why."""
    return _UNDECIDED[reason] if count == 1 else Judgement(Verdict.UNDECIDED, count, reason=reason)


def violates(
    count: int = 1,
    expected: str = "",
    observed: str = "",
    context: dict[str, str] | None = None,
    *,
    level: Level | None = None,
    subject: Observation | None = None,
    role: Role | None = None,
) -> Judgement:
    """Return the judgement that `count` opportunities to offend were taken."""
    return Judgement(Verdict.VIOLATES, count, expected, observed, context or {}, level, subject, role)
