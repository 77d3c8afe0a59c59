"""The records that opened the connections, by flow.

Compiled code opens most connections. What their SYN said stands in arrays, and their record and the text of
their addresses are made when somebody asks for them: who only counts frames never does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Endpoint, Kind, Record
from decoders.wire.columnar.segments import SOCKET_WORDS
from decoders.wire.columnar.socket_pairs import sockets_of
from decoders.wire.opening import Opening
from decoders.wire.recorder import Run, connection_id
from decoders.wire.segment import SocketAddress

SYN = np.dtype(
    [
        (name, np.int64)
        for name in (
            "pair",
            "lower_is_client",
            "initial_sequence",
            "sequence",
            "captured_at",
            "position",
        )
    ]
)
"""The SYN of a connection: its socket pair, which socket sent it, and the number of its record."""
_SERVERS = 1_000


class SynColumns(NamedTuple):
    """SYNs, one row each: `sockets` (int64) has shape (n, SOCKET_WORDS), `syns` dtype SYN."""

    sockets: NDArray[np.int64]
    syns: NDArray[np.void]

    def of(self, rows: NDArray[np.int64]) -> SynColumns:
        """Return a copy of some rows."""
        return SynColumns(self.sockets[rows], self.syns[rows])

    def client_and_server(self, row: int) -> tuple[SocketAddress, SocketAddress]:
        """Return the sockets of a connection."""
        lower, upper = sockets_of(self.sockets[row].tolist())
        return (lower, upper) if self.syns["lower_is_client"].item(row) else (upper, lower)

    def opening(self, row: int) -> Opening:
        """Return a SYN as the scalar tracker knows it."""
        return Opening(self.syns["initial_sequence"].item(row), 0)


class Openings(Sequence[Record]):
    """The record OPENED of each flow's connection. A flow that had none has any record."""

    def __init__(self, run: Run) -> None:
        """`run` is what all records share."""
        self._run = run
        self._columns = SynColumns(np.zeros((0, SOCKET_WORDS), np.int64), np.zeros(0, SYN))
        self._made: list[Record | None] = []
        self._asked: list[int] = []
        """The flows whose records were made here because somebody asked."""

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, flow: int) -> Record: ...
    @overload
    def __getitem__(self, flow: slice) -> Sequence[Record]: ...
    def __getitem__(self, flow: int | slice) -> Record | Sequence[Record]:
        if isinstance(flow, slice):
            return [self[each] for each in range(*flow.indices(len(self)))]
        record = self._made[flow]
        if record is None:
            record = self._made[flow] = self._record(flow)
            self._asked.append(flow)
        return record

    @property
    def columns(self) -> SynColumns:
        """What is known of the SYNs that compiled code has met, by flow."""
        return self._columns

    def note(self, flow: int, record: Record) -> None:
        """Note a connection that the scalar tracker has opened."""
        self._reserve(flow + 1)
        self._made[flow] = record

    def note_all(self, flows: NDArray[np.int64], columns: SynColumns) -> None:
        """Note connections that compiled code has opened."""
        self._reserve(int(flows.max()) + 1)
        self._columns.sockets[flows], self._columns.syns[flows] = columns
        made = self._made
        for flow in flows.tolist():
            made[flow] = None

    def copied(self, before: Openings) -> Openings:
        """Return a copy that stays as it is. Records that `before`, the copy before it, made are kept."""
        numbers, numbers_before = self._columns.syns["sequence"], before.columns.syns["sequence"]
        for flow in before._asked:
            if self._made[flow] is None and numbers[flow] == numbers_before[flow]:
                self._made[flow] = before._made[flow]
        before._asked.clear()
        self._asked.clear()
        copied = Openings(self._run)
        copied._columns = SynColumns(self._columns.sockets.copy(), self._columns.syns.copy())
        copied._made = self._made.copy()
        return copied

    def _reserve(self, count: int) -> None:
        missing = count - len(self._made)
        if missing > 0:
            # At least as many again, so that a flood of openings does not copy all of them each time.
            missing = max(missing, len(self._made))
            self._made += [None] * missing
            sockets, syns = self._columns
            sockets = np.concatenate((sockets, np.zeros((missing, SOCKET_WORDS), np.int64)))
            self._columns = SynColumns(sockets, np.concatenate((syns, np.zeros(missing, SYN))))

    def _record(self, flow: int) -> Record:
        run, columns = self._run, self._columns
        client, server = columns.client_and_server(flow)
        shown, broker = run.shown_client(client).endpoint, _endpoint(server)
        *_, sequence, captured_at, position = columns.syns.item(flow)
        return Record(
            Kind.OPENED,
            connection_id(run.cluster, shown, broker, run.run, sequence),
            run.run,
            sequence,
            captured_at,
            shown,
            broker,
            run.cluster,
            run.feeder,
            position=position,
        )


@functools.lru_cache(maxsize=_SERVERS)
def _endpoint(server: SocketAddress) -> Endpoint:
    """Name a server: many connections have the same."""
    return server.endpoint
