"""The scalar path from records to windows: each record is decoded, observed and folded by itself.

It is the oracle of the columnar path (`conversation/columnar/windows.py`), which production uses.
"""

from __future__ import annotations

from collections.abc import Iterable

from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from expectations.conversation.fold import fold
from expectations.conversation.observation import Observation
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import Evidence
from expectations.conversation.statement import Statement
from expectations.conversation.window import ConnectionKey, Window

Said = dict[bytes, dict[Statement, int]]
"""What connections said in earlier windows, by connection ID: statements and their first sequences."""


def windows_of(
    schemas: Schemas, records: Iterable[tuple[Record, Evidence]], said: Said | None = None
) -> list[Window]:
    """Fold records, each with its evidence, to one window per connection.

    `said` holds the statements of earlier windows; those of these windows are added. The feeder's own
    heartbeats belong to no connection and are dropped.
    """
    observations: dict[bytes, list[Observation]] = {}
    keys: dict[bytes, ConnectionKey] = {}
    for record, evidence in records:
        if record.kind is Kind.HEARTBEAT:
            continue
        keys.setdefault(record.connection, ConnectionKey.of(record))
        observations.setdefault(record.connection, []).append(observe(schemas, record, evidence))
    said = {} if said is None else said
    return [
        window_of(keys[connection], fold(_in_order(seen), said.setdefault(connection, {})))
        for connection, seen in observations.items()
    ]


def window_of(connection: ConnectionKey, observations: list[Observation]) -> Window:
    """Number the statements of observations."""
    numbers: dict[Statement, int] = {}
    return Window(
        connection,
        [numbers.setdefault(seen.statement, len(numbers)) for seen in observations],
        [seen.occurrence for seen in observations],
        dict(enumerate(numbers)),
    )


def _in_order(observations: list[Observation]) -> list[Observation]:
    return sorted(observations, key=lambda seen: seen.first_sequence)
