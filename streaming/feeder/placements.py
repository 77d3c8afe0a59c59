"""Says where the clients of connections run: records PLACEMENT, beside those that the tracker makes.

A new connection is looked up by its client's address and the time of its opening. A pod may connect before
the API tells of its address, so a connection that has no name waits for one. While the API is away names are
stale, and connections that open then are looked up again when it is back.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from decoders.frame.record import Flag, Kind, Record
from decoders.wire.columnar.frames import FrameBatch
from streaming.feeder.pod_watch import PodWatch
from streaming.feeder.pods import LAG

MOST_WAITING: Final = 20_000
"""Connections that may wait for a name. If there are more, the oldest get none."""
LOOK_INTERVAL: Final = 1.0
"""Seconds between two looks at those that wait."""


class Placements:
    """Names the connections of one feeder. `outcomes` counts them by what became of it.

    The outcomes are `pod`, `node` (its address is shared), `stale` (while the API is away), `ambiguous`,
    `unknown`, and `closed`, for connections that ended before they had a name.
    """

    def __init__(self, watch: PodWatch, next_sequence: Callable[[], int]) -> None:
        self.outcomes: Counter[str] = Counter()
        self._watch = watch
        self._next_sequence = next_sequence
        self._waiting: dict[bytes, tuple[Record, str]] = {}
        self._seen = -1
        self._looked_at = 0.0
        self._latest = 0

    def added(self, batch: FrameBatch) -> FrameBatch:
        """Return a batch, followed by records of what was found."""
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
            yield from self._look_up([*self._waiting.values()])
        yield from self._look_up([(record, "") for record in opened.values()])
        self._give_up()

    def _has_news(self) -> bool:
        """Whether to look those up again that wait. In a large cluster there always is news."""
        changes, now = self._watch.changes, time.monotonic()
        if changes == self._seen or now - self._looked_at < LOOK_INTERVAL:
            return False
        self._seen, self._looked_at = changes, now
        return True

    def _close(self, connection: bytes, opened: dict[bytes, Record]) -> None:
        waited = self._waiting.pop(connection, None)
        if opened.pop(connection, None) is not None or (waited is not None and not waited[1]):
            self.outcomes["closed"] += 1

    def _look_up(self, connections: list[tuple[Record, str]]) -> Iterator[Record]:
        is_current = self._watch.current_since is not None
        for opened, given in connections:
            found = self._watch.addresses.placements(_host(opened), opened.captured_at)
            placement = next(iter(found)) if len(found) == 1 else ""
            if is_current and found:
                self._waiting.pop(opened.connection, None)
                self._count(placement)
            else:
                if placement and not given:
                    self.outcomes["stale"] += 1
                self._waiting[opened.connection] = opened, placement or given
            if placement and placement != given:
                yield dataclasses.replace(
                    opened,
                    kind=Kind.PLACEMENT,
                    sequence=self._next_sequence(),
                    captured_at=max(self._latest, opened.captured_at),
                    flags=Flag.NONE,
                    frame=placement.encode(),
                )

    def _count(self, placement: str) -> None:
        kind = "ambiguous" if not placement else "node" if placement.startswith("@") else "pod"
        self.outcomes[kind] += 1

    def _give_up(self) -> None:
        """Stop to wait for names that surely do not come, and for those that are too many."""
        current_since = self._watch.current_since
        expired = time.time_ns() - LAG
        while self._waiting:
            connection = next(iter(self._waiting))
            opened, given = self._waiting[connection]
            has_waited = current_since is not None and max(opened.captured_at, current_since) < expired
            if not has_waited and len(self._waiting) <= MOST_WAITING:
                break
            del self._waiting[connection]
            if not given:
                self.outcomes["unknown"] += 1


def _host(record: Record) -> str:
    return record.client.rpartition(":")[0].strip("[]")
