"""The canonical form of a state: equal for connections that behave alike, and with its values the state."""

from __future__ import annotations

import copy
import typing
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.observation import ConnectionKey as _Key
from expectations.conversation.observation import Evidence, Occurrence, Statement
from expectations.conversation.own_values import BY_VALUE, Own
from expectations.judging.canonical import NUMBERS, OddStateError, Registers, filler, walk_of
from expectations.judging.facts import canonical
from expectations.judging.judge import ConnectionState, Judge, OpenFinding, open_connection
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Judgement
from tests.cases.test_cases import CASES
from tests.expectations.conversation.scalar_windows import in_file, windows_of
from tests.streaming.judging.disguise import disguised

NAMES = default_schemas().api_names
WHOLE = (Statement, Evidence, OpenFinding, Judgement)
"""Types whose numbers are not classified: statements are split, evidence is one value, findings are apart."""


def numbers_of(annotation: Any, path: str, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers in a type, each with the way to it and what its type says."""
    if typing.get_origin(annotation) is Annotated:
        yield path, typing.get_args(annotation)[1]
    elif annotation is int:
        yield path, None
    elif typing.get_args(annotation):
        for argument in typing.get_args(annotation):
            yield from numbers_of(argument, path, seen)
    elif isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        if annotation in seen or annotation in WHOLE:
            return
        seen.add(annotation)
        hints = typing.get_type_hints(annotation, include_extras=True)
        for name in annotation.__struct_fields__:
            yield from numbers_of(hints[name], f"{annotation.__name__}.{name}", seen)


def test_every_number_of_a_state_says_whether_it_is_an_own_value() -> None:
    kinds = dict(numbers_of(ConnectionState, "", set()))
    unclassified = {path for path, kind in kinds.items() if kind is None}
    # The run belongs to the key of a connection, which no form has.
    assert unclassified == {"Conversation.run"}, "give these a type of own_values.py"
    assert {type(kind) for path, kind in kinds.items() if kind is not None} == {Own, str}
    assert {kind for kind in kinds.values() if isinstance(kind, str)} == {BY_VALUE}


def test_a_number_without_such_a_type_is_found() -> None:
    class Forgetful(msgspec.Struct):
        told_at: int = 0

    assert dict(numbers_of(Forgetful, "", set())) == {"Forgetful.told_at": None}


def states(turn: int, size: int = 1) -> Iterator[ConnectionState]:
    """Yield copies of the states of all cases after each window, in a disguise."""
    for case in CASES:
        exchange, rules = case.exchange()
        judge, known = Judge(NAMES, Terms(rules)), dict[bytes, ConnectionState]()
        placed = [(record, in_file("exchange", record)) for record in exchange.records]
        for begin in range(0, len(placed), size):
            for window in disguised(windows_of(default_schemas(), placed[begin : begin + size]), turn):
                state = known.setdefault(window.connection.id, open_connection(window.connection))
                judge.judge(state, window)
                state.conversation.configured = None
                yield copy.deepcopy(state)


def test_a_form_filled_with_its_values_is_the_state() -> None:
    odd = walked = 0
    for state in states(turn=1):
        walked += 1
        conversation = state.conversation
        try:
            facts, registers = canonical(state)
        except OddStateError:
            odd += 1
            continue
        where = conversation.cluster, conversation.client, conversation.server, conversation.run
        key = _Key(conversation.connection, *where)
        renamer = filler(registers.numbers, list(registers.uuids), list(registers.texts))
        back = facts.state(renamer, key, lambda _: conversation.progress)  # noqa: B023 - called at once
        back.findings = state.findings
        assert back == state
        assert canonical(back)[0] == facts
    assert odd < walked / 18


def test_connections_that_behave_alike_have_equal_facts() -> None:
    """In disguise a connection has other IDs, times and sequences, and nothing else."""
    for state, other in zip(states(turn=1), states(turn=2), strict=True):
        try:
            facts, registers = canonical(state)
        except OddStateError:
            with pytest.raises(OddStateError):
                canonical(other)
            continue
        others, differing = canonical(other)
        if b"++++////" in facts.packed + others.packed:
            continue  # in standard base64, some UUIDs cannot be told from Kafka's form
        assert others == facts
        assert not registers.uuids.keys() & differing.uuids.keys()


def test_an_observation_that_several_rules_keep_has_one_set_of_registers() -> None:
    observation = next(
        asked.request for state in states(turn=0) for asked in state.conversation.negotiation.waiting.values()
    )
    walk, registers = walk_of(type(observation)), Registers()
    assert walk is not None
    first, second = (walk(each, registers.renamer) for each in (observation, copy.deepcopy(observation)))
    assert first is second
    assert len(registers.numbers) < len(Occurrence.__struct_fields__)


def test_a_state_that_is_too_wide_has_no_form() -> None:
    registers = Registers()
    for number in range(NUMBERS + 1):
        registers.renamer.number(1 + number)
    with pytest.raises(OddStateError):
        registers.checked_widths()
