"""A window of records: decoded, observed and folded, one window a connection.

The query runs this on each Arrow batch and `check` on slices of a file: it is the same code, so both
judge the same facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from expectations.conversation.fold import fold
from expectations.conversation.observation import ConnectionWindow, Evidence, Observation
from expectations.conversation.observe import observe


@dataclass(slots=True)
class _Connection:
    record: Record
    observations: list[Observation] = field(default_factory=list)


def windows_of(schemas: Schemas, records: Iterable[tuple[Record, Evidence]]) -> list[ConnectionWindow]:
    """Fold records, each with the place where it stands, to one window per connection.

    The feeder's own heartbeats belong to no connection and are left out.
    """
    connections: dict[bytes, _Connection] = {}
    for record, evidence in records:
        if record.kind is Kind.HEARTBEAT:
            continue
        connection = connections.setdefault(record.connection, _Connection(record))
        connection.observations.append(observe(schemas, record, evidence))
    return [_window(connection) for connection in connections.values()]


def _window(connection: _Connection) -> ConnectionWindow:
    record = connection.record
    return ConnectionWindow(
        connection=record.connection,
        cluster=record.cluster,
        client=str(record.client),
        server=str(record.server),
        run=record.run,
        observations=fold(sorted(connection.observations, key=lambda seen: seen.first_sequence)),
    )
