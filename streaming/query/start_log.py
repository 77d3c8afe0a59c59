"""The log of the query's start: how many tasks Spark has finished before the first frames are judged.

Spark starts its Python workers in the first batches, which can take minutes on a busy machine. Until then
nothing else tells a slow start from one that hangs.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from streaming.log import QUERY_LOG


class StartLog:
    """Logs each change in the number of finished tasks, as long as it is polled."""

    def __init__(self, session: SparkSession) -> None:
        self._tracker = session.sparkContext.statusTracker()
        self._finished: dict[int, int] = {}
        self._logged = -1

    def poll(self) -> None:
        """Log the number of finished tasks if it has changed."""
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                # A stage that has ended is no longer active: what it last showed is remembered.
                self._finished[stage] = info.numCompletedTasks
        tasks = sum(self._finished.values())
        if self._finished and tasks != self._logged:
            self._logged = tasks
            QUERY_LOG.info("starting-workers", tasks=tasks)
