"""Steps with the automaton return and store what the judge alone does, whatever connections say.

Each property is held twice over one automaton: other IDs, addresses, sequences and times then meet the
transitions that were learnt before.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.schema.registry import default_schemas
from streaming.check.examination import records_of
from streaming.feeder.source import open_capture
from tests.captures import planted, real_clients
from tests.cases.test_cases import CASES
from tests.examples import examples, sampled
from tests.mutations.mutator import MUTATORS
from tests.mutations.test_mutations import mutants_of
from tests.streaming.judging.activities import (
    ANYTHING,
    FOUR_FRAME_STEPS,
    HEARTBEATS,
    NAMES_OF_ONE,
    OPENING,
    SHORT,
    STEADY,
    Names,
    batches,
    exchange_of,
    opened,
    retimed,
    together,
)
from tests.streaming.judging.stepping import Pair, Pairs, Stores
from tests.streaming.judging.travelling import in_batches, observed, travelled

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("transitions_are_learnt_at_once")]
"""All cases, and a share of all mutants, are judged twice in one test: minutes on a busy machine."""

SAMPLED = 97
"""Mutants of which one is judged in every run; `make long` judges all."""
ALL_MUTANTS = [pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.mark.slow
@examples(400)
@given(
    st.lists(st.tuples(STEADY | HEARTBEATS | ANYTHING, NAMES_OF_ONE), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_steps_with_and_without_the_automaton_return_the_same(
    scripts: list[tuple[list[str], Names]], size: int, at_once: int, mid_stream: bool, archives: bool
) -> None:
    """A step may process several windows of a connection: one from each Arrow batch."""
    exchanges = [exchange_of(activities, mid_stream, names) for activities, names in scripts]
    Pair(archives=archives).compare_in_turns(together(batches(exchanges, size), at_once))


@pytest.mark.slow
@examples(400)
@given(st.lists(st.tuples(FOUR_FRAME_STEPS, NAMES_OF_ONE), min_size=3, max_size=3), st.booleans())
def test_connections_are_not_confused(scripts: list[tuple[list[str], Names]], archives: bool) -> None:
    """A window is one activity here, so many windows differ only in connection and earlier traffic."""
    exchanges = [exchange_of(activities, False, names) for activities, names in scripts]
    of_activities = batches([opened(exchange) for exchange in exchanges], 4)
    Pair(archives=archives).compare_in_turns(together(of_activities, 1))


@pytest.mark.slow
@examples(400)
@given(
    FOUR_FRAME_STEPS,
    st.lists(st.tuples(NAMES_OF_ONE, OPENING, st.integers(0, 12), FOUR_FRAME_STEPS), min_size=3, max_size=3),
    st.booleans(),
)
def test_connections_with_different_beginnings_are_not_confused(
    activities: list[str], scripts: list[tuple[Names, int, int, list[str]]], archives: bool
) -> None:
    """All connections perform the same activities up to some point, but begin differently."""
    exchanges = [
        exchange_of(activities[:end] + others, False, names, opening)
        for names, opening, end, others in scripts
    ]
    of_activities = batches([opened(exchange) for exchange in exchanges], 4)
    Pair(archives=archives).compare_in_turns(together(of_activities, 1))


@pytest.mark.slow
@examples(160)
@given(
    st.lists(st.tuples(SHORT | HEARTBEATS, NAMES_OF_ONE, OPENING, st.booleans()), min_size=1, max_size=4),
    st.integers(1, 30),
    st.integers(1, 8),
    st.booleans(),
)
def test_openings_that_batches_cut_anywhere_are_not_confused(
    scripts: list[tuple[list[str], Names, int, bool]], size: int, at_once: int, archives: bool
) -> None:
    """Connections open, say little, and some close; a step takes several windows of each."""
    exchanges = [
        exchange_of(activities, False, names, opening, is_closed)
        for activities, names, opening, is_closed in scripts
    ]
    Pair(archives=archives).compare_in_turns(together(batches(exchanges, size), at_once))


@pytest.mark.slow
@examples(160)
@given(SHORT, st.lists(NAMES_OF_ONE, min_size=4, max_size=4), OPENING, st.booleans(), st.data())
def test_openings_of_the_same_statements_are_not_confused(
    activities: list[str], names: list[Names], opening: int, is_closed: bool, data: st.DataObject
) -> None:
    """All connections do the same, with IDs that are equal in other places, and at other moments.

    Batches cut through all of them at the same places.
    """
    exchanges = [exchange_of(activities, False, each, opening, is_closed) for each in names]
    for exchange in exchanges:
        moments = st.lists(st.integers(0, 2), min_size=len(exchange.records), max_size=len(exchange.records))
        retimed(exchange, data.draw(moments))
    size = data.draw(st.integers(1, len(exchanges[0].records)))
    Pair(archives=data.draw(st.booleans())).compare_in_turns(together(batches(exchanges, size), 1))


@pytest.mark.slow
@examples(400)
@given(
    st.lists(st.tuples(SHORT | HEARTBEATS, NAMES_OF_ONE, OPENING), min_size=1, max_size=3),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 20),
    st.booleans(),
)
def test_a_source_that_is_read_again_and_a_query_that_restarts_change_nothing(
    scripts: list[tuple[list[str], Names, int]], size: int, replayed: int, until: int, has_lost: bool
) -> None:
    """After a restart the automaton is a new one, and the latest batches come again.

    Where frames were lost before the restart, connections count as interrupted.
    """
    exchanges = [exchange_of(activities, False, names, opening) for activities, names, opening in scripts]
    cut = together(batches(exchanges, size), 1)
    before, after = Pair(), Pair(resumed_at=int(has_lost))
    for _ in range(2):
        stores = Stores()
        for parts in cut[:until]:
            before.step(stores, *parts)
        for parts in cut[max(0, until - replayed) :]:
            after.step(stores, *parts)
        after.tick(stores)


@given(ANYTHING, st.integers(1, 12))
def test_packing_windows_loses_nothing(activities: list[str], size: int) -> None:
    for batch in batches([exchange_of(activities, mid_stream=False)] * 2, size):
        (columns,) = travelled(batch)
        assert [(window.connection, window.observations) for window in columns.windows()] == [
            (window.connection, window.observations) for window in batch
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "size", "archives"),
    [(0, 4, True), (3, 1, False), (6, 1, True), (9, 10_000, False), (12, 10_000, True)],
)
def test_cases_are_stepped_as_the_judge_does(begin: int, size: int, archives: bool) -> None:
    """A share of the cases in `make test`, cut in several ways; `test_transitions.py` steps all of them."""
    Pairs(archives=archives).compare(sampled(CASES, begin), size)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "size"),
    [
        (SAMPLED, 4),
        pytest.param(1, 4, marks=ALL_MUTANTS),
        pytest.param(1, 10_000, marks=ALL_MUTANTS),
    ],
)
def test_mutants_are_stepped_as_the_judge_does(step: int, size: int) -> None:
    """Every `step`th of all mutants, with one automaton for all of them."""
    pairs = Pairs()
    mutants = (mutant for rule in MUTATORS for mutant in mutants_of(rule))
    for mutant in itertools.islice(mutants, 0, None, step):
        exchange, rules = mutant.performed()
        pairs.of(rules).compare_in_turns(in_batches(exchange, size))


@pytest.mark.parametrize(("size", "archives"), [(10_000, False), (200, False), (200, True)])
@pytest.mark.parametrize("capture", [planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def test_captures_are_stepped_as_the_judge_does(capture: Path, size: int, archives: bool) -> None:
    pair = Pair(archives=archives)
    with open_capture(capture) as packets:
        records = list(records_of(default_schemas(), packets, (), 1))
    begins = range(0, len(records), size)
    pair.compare_in_turns([[observed(records[begin : begin + size])] for begin in begins])
    assert pair.walked > 0
