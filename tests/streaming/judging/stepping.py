"""Judges exchanges as the query does: by steps of a bucket that is stored after each."""

from __future__ import annotations

from decoders.retention import REPUBLISH_AFTER
from decoders.schema.registry import default_schemas
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.occurrence import Evidence
from expectations.conversation.record_windows import windows_of
from expectations.conversation.window import Window
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome
from streaming.judging.bucket_step import BucketStep
from streaming.judging.report import Report
from streaming.state.bucket import Bucket
from tests.exchange import Exchange
from tests.streaming.judging.travelling import travelled, travelled_columns
from tests.streaming.state.bucket_store import BucketStore

NAMES = default_schemas().api_names


class UncachedJudge(Judge):
    """Excludes every observation from the cache."""

    def uses_progress(self, observation: Observation, conversation: Conversation) -> bool:
        return True


class CountingJudge(Judge):
    """Counts the observations that the rules judge."""

    judged = 0

    def judge_each(self, state: ConnectionState, window: Window) -> list[Outcome]:
        self.judged += len(window.observations)
        return super().judge_each(state, window)


def stepped(step: BucketStep, exchange: Exchange, size: int, *, as_columns: bool = False) -> list[Report]:
    """Process the records of an exchange, `size` per step. Returns the reports of all steps and of a tick."""
    store, reports = BucketStore(Bucket()), list[Report]()
    placed = [(record, Evidence.in_file("exchange", record)) for record in exchange.records]
    for begin in range(0, len(placed), size):
        bucket = store.load()
        windows = windows_of(default_schemas(), placed[begin : begin + size])
        if as_columns:
            reports.append(step.process_columns(0, bucket, [travelled_columns(windows)]))
        else:
            reports.append(step.process(0, bucket, travelled(windows)))
        store.save(bucket)
    reports.append(step.tick(0, store.load(), REPUBLISH_AFTER))
    return reports
