"""What one window of the stream says of one connection: as observations, or as told briefly.

Connections say much the same. Told briefly, what they say is said once for all of them, and of each
observation there is its moment: when it was, how often, and where the evidence stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from decoders.frame.record import Record
from expectations.conversation.observation import Evidence, Observation


class Speakers(NamedTuple):
    """Which connection a window is of: its id, the cluster, both addresses, and the run of the feeder."""

    connection: bytes
    cluster: str
    client: str
    server: str
    run: int


class ConnectionWindow(msgspec.Struct, array_like=True):
    """Observations of one connection, in the order of the first sequences."""

    connection: bytes
    cluster: str
    client: str
    server: str
    run: int
    observations: list[Observation]

    @property
    def first_sequence(self) -> int:
        """The first sequence of the first observation, 0 if there is none."""
        return self.observations[0].first_sequence if self.observations else 0


class BriefEvidence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Evidence before it is written out: `beginning` holds the first bytes of the frame as they are."""

    source: str
    beginning: bytes
    position: int | None = None
    partition: int | None = None
    offset: int | None = None

    @property
    def in_full(self) -> Evidence:
        """Write it out."""
        return Evidence(
            source=self.source,
            bytes=self.beginning.hex(),
            position=self.position,
            partition=self.partition,
            offset=self.offset,
        )


class Moment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an observation has to itself. `saying` numbers what it says, which is an observation too."""

    saying: int
    first_sequence: int
    last_sequence: int
    first_captured_at: int
    last_captured_at: int
    previous_captured_at: int
    evidence: BriefEvidence
    count: int
    correlation_id: int | None
    paired_sequence: int

    def observed(self, said: Observation) -> Observation:
        """Give the observation that says this at this moment."""
        return msgspec.structs.replace(
            said,
            first_sequence=self.first_sequence,
            last_sequence=self.last_sequence,
            first_captured_at=self.first_captured_at,
            last_captured_at=self.last_captured_at,
            previous_captured_at=self.previous_captured_at,
            evidence=self.evidence.in_full,
            count=self.count,
            correlation_id=self.correlation_id,
            paired_sequence=self.paired_sequence,
        )


class BriefWindow(msgspec.Struct, array_like=True):
    """Moments of one connection, in the order of the first sequences."""

    speakers: Speakers
    moments: list[Moment]

    def observed(self, sayings: Sequence[Observation]) -> ConnectionWindow:
        """Give it with observations, which say what these sayings say."""
        return ConnectionWindow(
            *self.speakers, [moment.observed(sayings[moment.saying]) for moment in self.moments]
        )


def speakers_of(record: Record) -> Speakers:
    """Name the connection of a record, of which any one tells who speaks there."""
    return Speakers(record.connection, record.cluster, str(record.client), str(record.server), record.run)
