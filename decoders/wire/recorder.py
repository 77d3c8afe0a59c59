"""Makes the records of one connection, which share its identity."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

from decoders.frame.record import NO_RECORD, Direction, Flag, Kind, Record
from decoders.wire.segment import SocketAddress

ShownClient: TypeAlias = Callable[[SocketAddress], SocketAddress]
"""Returns the address that records show of a client: another one if clients have pseudonyms."""


def as_it_is(client: SocketAddress) -> SocketAddress:
    """Show a client's own address."""
    return client


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """What all records of one run of the feeder share; `next_sequence` returns their numbers, from 1.

    `names_ports` is True if the user names the ports of the brokers, and no others are watched. Records show
    the address of a client as `shown_client` returns it.
    """

    run: int
    cluster: str
    feeder: str
    next_sequence: Callable[[], int]
    names_ports: bool = False
    shown_client: ShownClient = as_it_is


class Recorder:
    """Makes the records of one connection. The first record, OPENED, determines the connection's ID."""

    def __init__(self, run: Run, client: SocketAddress, server: SocketAddress) -> None:
        self.is_port_named = run.names_ports
        self._next_sequence = run.next_sequence
        self._latest = Record(
            kind=Kind.OPENED,
            connection=b"",
            run=run.run,
            sequence=NO_RECORD,
            captured_at=0,
            client=run.shown_client(client).endpoint,
            server=server.endpoint,
            cluster=run.cluster,
            feeder=run.feeder,
        )
        self._identity = self._latest

    def continue_from(self, opened: Record) -> None:
        """Continue a connection of which `opened` is the record OPENED."""
        self._latest = self._identity = opened

    def opened(self, captured_at: int, position: int, *, mid_stream: bool) -> Record:
        """Make the record OPENED, which determines the ID of the connection."""
        sequence = self._next_sequence()
        shown = self._identity
        identity = connection_id(shown.cluster, shown.client, shown.server, shown.run, sequence)
        self._identity = dataclasses.replace(shown, connection=identity)
        flags = Flag.MID_STREAM if mid_stream else Flag.NONE
        return self._write(
            sequence, kind=Kind.OPENED, captured_at=captured_at, position=position, flags=flags
        )

    def record(self, kind: Kind, captured_at: int, position: int, **fields: Any) -> Record:
        """Make the next record; `fields` are those of Record."""
        return self._write(
            self._next_sequence(), kind=kind, captured_at=captured_at, position=position, **fields
        )

    @property
    def connection(self) -> bytes:
        """The connection's ID."""
        return self._identity.connection

    def forget_gap(self) -> None:
        """Note that the latest record is no gap, because another tracker recorded frames since."""
        self._latest = self._identity

    def just_recorded_gap(self, direction: Direction) -> bool:
        """Whether the latest record of the connection is a GAP in this direction."""
        return self._latest.kind is Kind.GAP and self._latest.direction is direction

    def _write(self, sequence: int, **fields: Any) -> Record:
        # What `dataclasses.replace` does, in half of the time.
        shared = self._identity
        self._latest = Record(
            connection=shared.connection,
            run=shared.run,
            client=shared.client,
            server=shared.server,
            cluster=shared.cluster,
            feeder=shared.feeder,
            sequence=sequence,
            **fields,
        )
        return self._latest


def connection_id(cluster: str, client: str, server: str, run: int, opening_sequence: int) -> bytes:
    """Return the ID of a connection, which its record OPENED determines."""
    parts = (cluster, client, server, str(run), str(opening_sequence))
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).digest()
