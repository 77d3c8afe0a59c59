"""A window: what one connection said in one batch, as statements and their occurrences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from decoders.frame.record import Record
from expectations.conversation.observation import Observation
from expectations.conversation.occurrence import Occurrence
from expectations.conversation.statement import Statement


class ConnectionKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which connection a window belongs to: its 16-byte ID, cluster, both addresses, and the feeder's run."""

    id: bytes
    cluster: str
    client: str
    server: str
    run: int

    @classmethod
    def of(cls, record: Record) -> ConnectionKey:
        """Return the key of the connection that a record belongs to."""
        return cls(record.connection, record.cluster, str(record.client), str(record.server), record.run)


class Window(NamedTuple):
    """Occurrences on one connection, ordered by their first sequence.

    `numbers[i]` is the number of the statement of `occurrences[i]` in `statements`. The windows of a batch
    share one table of statements.
    """

    connection: ConnectionKey
    numbers: list[int]
    occurrences: list[Occurrence]
    statements: Mapping[int, Statement]

    @property
    def first_sequence(self) -> int:
        """The first sequence of the first occurrence, 0 if there is none."""
        return self.occurrences[0].first_sequence if self.occurrences else 0

    @property
    def observations(self) -> list[Observation]:
        """The occurrences with their statements, as rules read them.

        They have no sizes: rules keep observations, and equal conversations are stored alike.
        """
        statements = self.statements
        return [
            Observation(statements[number], occurrence.without_size())
            for number, occurrence in zip(self.numbers, self.occurrences, strict=True)
        ]
