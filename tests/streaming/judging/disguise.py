"""Windows in disguise: the same traffic on another connection, of another client, at another time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from random import Random

import msgspec

from expectations.conversation.observation import ConnectionKey, Evidence, Occurrence, Statement, Window
from expectations.conversation.statement_template import Values, split
from tests.exchange import SECOND


def disguised(windows: Iterable[Window], turn: int) -> list[Window]:
    """Replace what is a connection's own: addresses, IDs, sequences, times and evidence.

    Equal IDs stay equal, and all order stays as it is. Turn 0 changes nothing.
    """
    return [_disguised(window, turn) if turn else window for window in windows]


def _disguised(window: Window, turn: int) -> Window:
    return Window(
        _key(window.connection, turn),
        window.numbers,
        [_occurrence(occurrence, turn) for occurrence in window.occurrences],
        {number: _statement(statement, turn) for number, statement in window.statements.items()},
    )


def _key(key: ConnectionKey, turn: int) -> ConnectionKey:
    host, _, port = key.client.rpartition(":")
    return msgspec.structs.replace(
        key,
        id=hashlib.blake2b(key.id, digest_size=16, salt=bytes([turn])).digest(),
        client=f"{host}{turn}:{int(port) + turn}",
        server=f"{turn}{key.server}",
        cluster=f"{key.cluster}-{turn}",
        run=key.run + turn,
    )


def _occurrence(given: Occurrence, turn: int) -> Occurrence:
    """Stretch sequences and times, as if other connections spoke between these frames."""
    random = Random(given.first_sequence)
    evidence = Evidence(
        f"{given.evidence.source}{turn}", random.randbytes(8), None, turn, given.first_sequence
    )
    return Occurrence(
        given.first_sequence * 7 * turn,
        given.last_sequence * 7 * turn,
        _later(given.first_captured_at, turn),
        _later(given.last_captured_at, turn),
        evidence,
        given.previous_captured_at and _later(given.previous_captured_at, turn),
        given.count,
        None if given.correlation_id is None else given.correlation_id + turn,
        given.paired_sequence * 7 * turn,
        given.size,
    )


def _later(at: int, turn: int) -> int:
    return at + 3_600 * SECOND * turn


def _statement(statement: Statement, turn: int) -> Statement:
    template, own = split(statement)
    return template.filled(
        Values(
            f"{own.client_id} {turn}",
            _identifier(own.instance_id, turn),
            _identifier(own.member_id, turn),
            f"{own.group_id} {turn}",
            own.epoch + turn,
        )
    )


def _identifier(identifier: bytes, turn: int) -> bytes:
    return bytes(byte ^ (turn << 4) for byte in identifier)
