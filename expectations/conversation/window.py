"""A window of records: decoded, observed and folded, one window a connection.

The query runs this on each Arrow batch and `check` on slices of a file: it is the same code, so both
judge the same facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from expectations.conversation.connection_window import ConnectionWindow, speakers_of
from expectations.conversation.fold import Likeness, fold
from expectations.conversation.observation import Evidence, Observation
from expectations.conversation.observe import observe


@dataclass(slots=True)
class _Connection:
    record: Record
    observations: list[Observation] = field(default_factory=list)


Said = dict[bytes, dict[Likeness, int]]
"""What connections said in earlier windows, by their ids."""


def windows_of(
    schemas: Schemas, records: Iterable[tuple[Record, Evidence]], said: Said | None = None
) -> list[ConnectionWindow]:
    """Fold records, each with the place where it stands, to one window per connection.

    `said` is what is remembered of earlier windows, and learns from these. The feeder's own heartbeats
    belong to no connection and are left out.
    """
    connections: dict[bytes, _Connection] = {}
    for record, evidence in records:
        if record.kind is Kind.HEARTBEAT:
            continue
        connection = connections.setdefault(record.connection, _Connection(record))
        connection.observations.append(observe(schemas, record, evidence))
    said = {} if said is None else said
    return [_folded(connection, said.setdefault(name, {})) for name, connection in connections.items()]


def _folded(connection: _Connection, said: dict[Likeness, int]) -> ConnectionWindow:
    observations = sorted(connection.observations, key=lambda seen: seen.first_sequence)
    return ConnectionWindow(*speakers_of(connection.record), fold(observations, said))
