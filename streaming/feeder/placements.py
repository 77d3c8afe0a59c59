"""Says where the clients of connections run: records PLACEMENT, beside those that the tracker makes.

A new connection is looked up by its client's address and the time of its opening. Kubernetes' API lags
behind: a pod may connect before the API tells its address, or while it still gives that address to another
pod. So each connection waits for LAG. Until then it is looked up again as long as it has no name, and once
more at the end; a further record corrects or withdraws a wrong name. While the API is away names are stale,
and connections wait until it is back.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from decoders.frame.record import Flag, Kind, Record, host_of
from decoders.wire.columnar.frames import FrameBatch
from streaming.feeder.pod_watch import PodWatch
from streaming.feeder.pods import LAG

MOST_WAITING: Final = 20_000
"""Maximum number of waiting connections. Beyond it, the oldest get their final look-up immediately."""
LOOK_INTERVAL: Final = 1.0
"""Seconds between two looks at those that wait without a name."""


class _Waiting(NamedTuple):
    """A connection: its record OPENED, the placement published of it, and whether the API answered then."""

    opened: Record
    given: str = ""
    is_fresh: bool = False


class Placements:
    """Names the connections of one feeder. `outcomes` counts them by the result.

    The outcomes are `pod`, `node` (its address is shared), `ambiguous`, `unknown`, and `closed`, for
    connections that ended before they had a name; `stale` counts names that were given while the API was
    away.
    """

    def __init__(self, watch: PodWatch, next_sequence: Callable[[], int]) -> None:
        self.outcomes: Counter[str] = Counter()
        self._watch = watch
        self._next_sequence = next_sequence
        self._waiting: dict[bytes, _Waiting] = {}
        self._seen = -1
        self._looked_at = 0.0
        self._latest = 0

    def added(self, batch: FrameBatch) -> FrameBatch:
        """Return a batch, followed by its records PLACEMENT."""
        found = list(self._records(batch))
        return dataclasses.replace(batch, events=batch.events.followed_by(found)) if found else batch

    def _records(self, batch: FrameBatch) -> Iterator[Record]:
        opened: dict[bytes, Record] = {}
        for record in batch.events:
            self._latest = max(self._latest, record.captured_at)
            if record.kind is Kind.OPENED:
                opened[record.connection] = record
            elif record.kind is Kind.CLOSED:
                self._close(record.connection, opened)
        if len(batch.frames.captured_at):
            self._latest = max(self._latest, int(batch.frames.captured_at.max()))
        if self._has_news():
            yield from self._name([each for each in self._waiting.values() if not each.is_fresh])
        yield from self._name([_Waiting(record) for record in opened.values()])
        yield from self._settle()

    def _has_news(self) -> bool:
        """Whether to look up nameless connections again: not too often, as large clusters always change."""
        changes, now = self._watch.changes, time.monotonic()
        if changes == self._seen or now - self._looked_at < LOOK_INTERVAL:
            return False
        self._seen, self._looked_at = changes, now
        return True

    def _close(self, connection: bytes, opened: dict[bytes, Record]) -> None:
        waited = self._waiting.pop(connection, None)
        if opened.pop(connection, None) is not None or (waited is not None and not waited.given):
            self.outcomes["closed"] += 1
        elif waited is not None:
            self._count(waited.given)

    def _name(self, connections: list[_Waiting]) -> Iterator[Record]:
        is_current = self._watch.current_since is not None
        for opened, given, _ in connections:
            found = self._found(opened)
            placement = next(iter(found)) if len(found) == 1 else given
            self._waiting[opened.connection] = _Waiting(opened, placement, is_current and len(found) == 1)
            if placement != given:
                self.outcomes["stale"] += not is_current
                yield self._record(opened, placement)

    def _settle(self) -> Iterator[Record]:
        """Look up, for the last time, those that have waited for LAG, and the oldest if too many wait."""
        current_since = self._watch.current_since
        expired = time.time_ns() - LAG
        while self._waiting:
            opened, given, _ = next(iter(self._waiting.values()))
            has_waited = current_since is not None and max(opened.captured_at, current_since) < expired
            if not has_waited and len(self._waiting) <= MOST_WAITING:
                break
            del self._waiting[opened.connection]
            found = self._found(opened)
            placement = next(iter(found)) if len(found) == 1 else ""
            self._count(placement, is_known=bool(found))
            if placement != given:
                yield self._record(opened, placement)

    def _found(self, opened: Record) -> set[str]:
        host = host_of(opened.client).strip("[]")
        return self._watch.addresses.placements(host, opened.captured_at)

    def _record(self, opened: Record, placement: str) -> Record:
        return msgspec.structs.replace(
            opened,
            kind=Kind.PLACEMENT,
            sequence=self._next_sequence(),
            captured_at=max(self._latest, opened.captured_at),
            flags=Flag.NONE,
            frame=placement.encode(),
        )

    def _count(self, placement: str, *, is_known: bool = True) -> None:
        if not placement:
            self.outcomes["ambiguous" if is_known else "unknown"] += 1
        else:
            self.outcomes["node" if placement.startswith("@") else "pod"] += 1
