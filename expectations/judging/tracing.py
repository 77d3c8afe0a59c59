"""Tracing: learns a transition of the automaton by judging once.

The judge processes one observation on a state in which each number knows the cell that it comes from
(`cells.py`), and each own UUID and text is a stand-in. The result holds for every connection with these facts
that gets a frame with this input:

- A comparison of numbers is a *guard*: the transition holds where it comes out alike.
- The new state, in canonical form, is the target. Its registers say from which cells they are set.
- Checks and claims are what the transition yields.

Some things cannot be followed: a finding, a number in a text, arithmetic other than sums and differences,
requests that are in flight, a state without a canonical form. The transition then asks the judge, where the
guards that were recorded before hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.observation import Observation, Occurrence, Statement
from expectations.conversation.progress import (
    PROGRESS_NUMBERS,
    InFlight,
    MemberProgress,
    Progress,
    Shown,
)
from expectations.conversation.statement_template import OwnValues, StatementTemplate, Values
from expectations.identity.claim import Claim
from expectations.judging.canonical import OddStateError, Registers, Renamer
from expectations.judging.cells import (
    ADVANCED,
    INPUT,
    NUMBER,
    PROGRESS,
    TEXT,
    UUID,
    ZERO,
    Effect,
    Linear,
    input_cell,
)
from expectations.judging.claim_template import ClaimTemplate, claim_templates
from expectations.judging.facts import Facts, Shape, canonical, shape_of
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome
from expectations.judging.traced_values import (
    Guard,
    NotFollowedError,
    StandIns,
    Trace,
    TracedNumber,
    linear_of,
    plain,
)


class Input(NamedTuple):
    """A frame or tick that comes to a connection, as far as transitions depend on it.

    `template` is None for a tick. `client`, `group`, `instance` and `member` are the cells that have the own
    IDs of the statement: a register's, or an input's for an ID that is in no register. Two equal IDs that are
    in no register have the cell of the first. `is_single` means that the occurrence is of one
    frame, `is_paired` that its request is known, `has_correlation_id` that it has one.
    """

    template: StatementTemplate | None
    client: int = ZERO
    group: int = ZERO
    instance: int = ZERO
    member: int = ZERO
    is_single: bool = True
    is_paired: bool = False
    has_correlation_id: bool = False
    configured: ClusterDescription | None = None


class Learnt(NamedTuple):
    """A transition: where `guards` hold, it leads to `facts`, or, if these are None, to the judge.

    `moves` are the cells of registers that change, with their new values. `checks` count as often as the
    frame. `gaps` are the values that fill those of `claims`.
    """

    guards: tuple[Guard, ...]
    facts: Facts | None = None
    moves: tuple[tuple[int, Linear], ...] = ()
    effect: Effect = Effect.NOTHING
    checks: tuple[tuple[str, str], ...] = ()
    claims: tuple[ClaimTemplate, ...] = ()
    gaps: tuple[Linear, ...] = ()


class _TracedInFlight:
    """The requests in flight, of which it is known only whether there are any."""

    def __init__(self, before: TracedNumber, after: TracedNumber) -> None:
        self._number = before
        self._after = after

    def advance(self, _statement: Statement, _count: int) -> None:
        """Requests and responses are counted apart, by the walk."""

    def end_frame(self) -> None:
        """Go from what is in flight before the frame to what is in flight after it."""
        self._number = self._after

    def __getattr__(self, name: str) -> Any:
        """Answer as an empty `InFlight` does. Raises NotFollowedError if a request is in flight."""
        if self._number != 0:
            raise NotFollowedError
        return getattr(InFlight(), name)


class _TracedProgress(Progress):
    """A progress in traced numbers that notes what happens to it."""

    cells: Any = None
    of_cell: Any = None
    shape: Shape = Shape()
    effect: Effect = Effect.NOTHING

    @classmethod
    def of(
        cls, name: str, shape: Shape, cells: list[int], of_cell: Callable[[int], TracedNumber]
    ) -> _TracedProgress:
        """Lay a progress out. `name` is that of the only member, empty without one."""
        made = cls(cells=cells, of_cell=of_cell, shape=shape)
        made.in_flight = _TracedInFlight(  # type: ignore[assignment]
            of_cell(input_cell("in_flight")), of_cell(input_cell("in_flight_after"))
        )
        made._lay_out(PROGRESS, name, shape)
        return made

    def _lay_out(self, begin: int, name: str, shape: Shape) -> None:
        numbers = {field: self.of_cell(begin + at) for at, field in enumerate(PROGRESS_NUMBERS)}
        self.captured_at, self.sequence = numbers["captured_at"], numbers["sequence"]
        self.loss = numbers["loss"] if shape.has_loss else 0
        if shape.has_client:
            self.client = Shown(numbers["client_until"], numbers["client_before_until"])
        if shape.has_instance:
            self.instance = Shown(numbers["instance_until"], numbers["instance_before_until"])
        if name:
            heartbeat = numbers["member_heartbeat"] if shape.has_heartbeat else 0
            shown = numbers["member_until"], numbers["member_before_until"]
            self.members = {name: MemberProgress(*shown, heartbeat)}

    def lose(self, sequence: int) -> dict[int, int]:
        """Process a loss. Raises NotFollowedError if something is in flight."""
        self.effect |= Effect.LOSES
        return super().lose(sequence)

    def advance(
        self, statement: Statement, occurrence: Occurrence, member: MemberProgress | None = None
    ) -> None:
        """Note what happened to the progress; the walk advances it."""
        if len(self.members) > 1:
            raise OddStateError
        name, had, has, beats = next(iter(self.members), ""), self.shape, shape_of(self), member is not None
        for effect, is_had in (
            (Effect.NEW_CLIENT, has.has_client and not had.has_client),
            (Effect.NEW_INSTANCE, has.has_instance and not had.has_instance),
            (Effect.NEW_MEMBER, has.has_member and not had.has_member),
            (Effect.FORGETS, had.has_heartbeat and not has.has_heartbeat),
            (Effect.BEATS, beats),
        ):
            self.effect |= effect if is_had else Effect.NOTHING
        self.in_flight.end_frame()  # type: ignore[attr-defined]
        self.cells[ADVANCED : ADVANCED + len(PROGRESS_NUMBERS)] = self._advanced(
            statement, occurrence, beats=beats
        )
        self._lay_out(ADVANCED, name, has._replace(has_heartbeat=has.has_heartbeat or beats))

    def _advanced(self, statement: Statement, occurrence: Occurrence, *, beats: bool) -> tuple[int, ...]:
        """Return what the numbers are after the frame in this example."""
        example = Progress.of_numbers([*map(plain, self.numbers())], next(iter(self.members), ""), InFlight())
        traced = msgspec.structs.asdict(occurrence).items()
        values = {name: plain(value) for name, value in traced if isinstance(value, TracedNumber)}
        occurrence = msgspec.structs.replace(occurrence, **values)
        example.advance(statement, occurrence, example.only_member if beats else None)
        return example.numbers()


_MAYBE_ABSENT: Final = (
    PROGRESS + PROGRESS_NUMBERS.index("captured_at"),
    PROGRESS + PROGRESS_NUMBERS.index("sequence"),
)
"""The cells of the progress that are 0 before the first frame."""


def learn(judge: Judge, secret: bytes, facts: Facts, given: Input, cells: list[int]) -> Learnt:
    """Learn what comes of an input to a connection with these facts.

    `cells` are those of an example. Stand-ins are made from the secret.
    """
    tracing = _Tracing(given, cells, StandIns(secret))
    try:
        return tracing.learnt(facts, judge)
    except (NotFollowedError, OddStateError):
        return Learnt(tuple(tracing.trace.guards))


class _Tracing:
    """One observation on one state, in traced numbers and stand-ins. `trace` has the guards so far."""

    def __init__(self, given: Input, cells: list[int], stand_ins: StandIns) -> None:
        self.trace = Trace()
        self._given = given
        self._cells = cells
        self._stand_ins = stand_ins

    def learnt(self, facts: Facts, judge: Judge) -> Learnt:
        """Judge the observation and return the transition. Raises NotFollowedError and OddStateError."""
        stand_ins = self._stand_ins
        progress = functools.partial(
            _TracedProgress.of, shape=facts.shape, cells=self._cells, of_cell=self._number
        )
        state = facts.state(self._renamer(), stand_ins.key(), progress, self._given.configured)
        checks, claims = self._judged(state, judge)
        target, registers = canonical(state, msgspec.msgpack.Encoder(enc_hook=self.trace.constant))
        if stand_ins.leak_into(target.packed):
            raise NotFollowedError
        templates, gaps = claim_templates(claims, stand_ins)
        return Learnt(
            tuple(self.trace.guards),
            target,
            tuple(_moves(facts, registers, stand_ins)),
            state.conversation.progress.effect,  # type: ignore[attr-defined]
            checks,
            templates,
            gaps,
        )

    def _number(self, cell: int, *, is_positive: bool = False) -> TracedNumber:
        is_progress = PROGRESS <= cell < NUMBER or ADVANCED <= cell < INPUT
        surely = is_positive or (is_progress and cell not in _MAYBE_ABSENT)
        return TracedNumber.of(int(self._cells[cell]), Linear(cell), self.trace, is_positive=surely)

    def _positive(self, name: str) -> TracedNumber:
        return self._number(input_cell(name), is_positive=True)

    def _renamer(self) -> Renamer:
        """Return what puts traced numbers and stand-ins in the place of the names of registers."""
        stand_ins = self._stand_ins
        return Renamer(
            lambda name: self._number(NUMBER + name - 1, is_positive=True),
            lambda name: self._number(NUMBER + name - 1),
            lambda name: stand_ins.text(TEXT + int(name)),
            lambda name: stand_ins.uuid(UUID + 2 * name[-1]),
            lambda name: stand_ins.evidence(TEXT + int(name.source)),
        )

    def _judged(
        self, state: ConnectionState, judge: Judge
    ) -> tuple[tuple[tuple[str, str], ...], list[Claim]]:
        """Judge the input. Returns the checks that each frame counts under, and the claims."""
        if self._given.template is None:
            return (), judge.latest_claims(state)
        statement, occurrence, outcome = self._statement(self._given.template), self._occurrence(), Outcome()
        judge.judge_observation(state, Observation(statement, occurrence), outcome)
        if outcome.offences or outcome.findings:
            raise NotFollowedError
        if any(not _is_count(count, occurrence.count) for count in outcome.checks.values()):
            raise NotFollowedError
        return tuple(outcome.checks), outcome.claims

    def _occurrence(self) -> Occurrence:
        given, positive = self._given, self._positive
        first, begun, single = positive("first_sequence"), positive("first_captured_at"), given.is_single
        return Occurrence(
            first,
            first if single else positive("last_sequence"),
            begun,
            begun if single else positive("last_captured_at"),
            self._stand_ins.evidence(input_cell("evidence")),
            0 if single else positive("previous_captured_at"),
            1 if single else positive("count"),
            self._number(input_cell("correlation_id")) if given.has_correlation_id else None,
            positive("paired_sequence") if given.is_paired else 0,
        )

    def _statement(self, template: StatementTemplate) -> Statement:
        own, given, stand_ins = template.own, self._given, self._stand_ins
        return template.filled(
            Values(
                stand_ins.text(given.client) if OwnValues.CLIENT in own else "",
                stand_ins.uuid(given.instance) if OwnValues.INSTANCE in own else b"",
                stand_ins.uuid(given.member) if OwnValues.MEMBER in own else b"",
                stand_ins.text(given.group) if OwnValues.GROUP in own else "",
                self._positive("epoch") if OwnValues.EPOCH in own else 0,
            )
        )


def _is_count(checked: int, count: int) -> bool:
    """Whether a check counts as often as its frame."""
    if isinstance(count, TracedNumber):
        return isinstance(checked, TracedNumber) and checked.linear == count.linear
    return not isinstance(checked, TracedNumber) and checked == count


def _moves(before: Facts, registers: Registers, stand_ins: StandIns) -> Iterator[tuple[int, Linear]]:
    """Yield the registers that change. Those that the new facts have no use for become 0.

    Raises NotFollowedError for a value that comes neither from the old state nor from the frame.
    """
    try:
        uuids = [stand_ins.uuids[each] for each in registers.uuids]
        texts = [stand_ins.texts[each] for each in registers.texts]
    except KeyError:
        raise NotFollowedError from None
    halves = [Linear(cell + half) for cell in uuids for half in (0, 1)]
    numbers, uuids_before, texts_before = before.widths
    for first, values, width in (
        (NUMBER, [*map(linear_of, registers.numbers)], numbers),
        (UUID, halves, 2 * uuids_before),
        (TEXT, [*map(Linear, texts)], texts_before),
    ):
        unused = [Linear()] * (width - len(values))
        for cell, value in enumerate([*values, *unused], first):
            if value != Linear(cell):
                yield cell, value
