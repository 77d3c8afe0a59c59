"""Compacts the past days of an archive, once a day, beside the query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from streaming.archive.archive import Archive, ArchiveNotWrittenError
from streaming.archive.table import instant
from streaming.log import QUERY_LOG


class DailyCompaction:
    """Starts a compaction when the first batch of a day was written. One that is under way is not doubled."""

    def __init__(self, archive: Archive, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` tells the time in nanoseconds since the epoch."""
        self._archive, self._clock = archive, clock
        self._day = ""
        self._thread: threading.Thread | None = None

    def after_batch(self, query: str, batch_id: int, day: str) -> None:
        """Process that a batch of a query was written, of captures up to a day such as `2026-06-21`."""
        # A capture of the future must not keep the days until then from being merged.
        day = min(day, instant(self._clock()).date().isoformat())
        if day <= self._day or (self._thread is not None and self._thread.is_alive()):
            return
        self._day = day
        self._thread = threading.Thread(
            target=self._compact, args=(query, batch_id, day), name="kipwatch-compaction", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until the compaction under way has ended."""
        if self._thread is not None:
            self._thread.join()

    def _compact(self, query: str, batch_id: int, day: str) -> None:
        try:
            count = self._archive.compact(query, before=day, below=batch_id)
        except ArchiveNotWrittenError as error:
            QUERY_LOG.warning("archive-not-compacted", line=str(error))
        else:
            QUERY_LOG.info("archive-compacted", before=day, files=count)
