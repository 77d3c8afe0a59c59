"""A query that takes up a checkpoint runs a batch at once, even where no frame is new.

Spark runs a batch without input only after another one: it asks the plan of the latest batch whether timers
wait. A query that was stopped between two batches has no such plan when it starts again. On a silent topic it
would then run nothing: no timer, no gauge, never ready and at last not healthy. So the next batch is entered
in the log of offsets as one that reads nothing, as Spark itself enters it while the query runs. Spark takes
it for one that was under way when the query ended.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from streaming.query.checkpoint import OFFSETS, left_to_query


def enter_first_batch(session: SparkSession, checkpoint: str) -> None:
    """Enter one if all batches of the checkpoint are committed. One that cannot be read is left as it is."""
    with left_to_query():
        _enter(session, checkpoint)


def _enter(session: SparkSession, checkpoint: str) -> None:
    jsession = session._jsparkSession
    logs = session._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    committed = logs.CommitLog(jsession, f"{checkpoint}/commits", True).getLatestBatchId()
    entered = logs.OffsetSeqLog(jsession, f"{checkpoint}/{OFFSETS}", True).getLatest()
    if committed.isEmpty() or entered.isEmpty():
        return
    latest, offsets = entered.get()._1(), entered.get()._2()
    if latest == committed.get():
        logs.OffsetSeqLog(jsession, f"{checkpoint}/{OFFSETS}", False).add(latest + 1, offsets)
