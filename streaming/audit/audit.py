"""The audit: validates the latest frames of the topic with the Great Expectations suite, without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from rich.table import Table

from decoders.schema.registry import Schemas
from expectations.suites.frame_order import with_order
from expectations.suites.frame_table import frame_table
from expectations.suites.frames import run_frames_suite
from expectations.suites.validation import SuiteResult
from streaming.audit.frames_topic import latest_records
from streaming.settings.kafka_client import Setting

CLOCKS = 300 * 1_000_000_000
"""Nanoseconds: how far clocks of hosts may differ."""


def audit(
    bootstrap: str, topic: str, limit: int, settings: Mapping[str, Setting] = MappingProxyType({})
) -> SuiteResult:
    """Read the last `limit` records, evenly over the partitions, and validate them.

    Raises UserError if Kafka cannot be reached, the topic does not exist, or it holds other records.
    """
    records = latest_records(bootstrap, topic, limit, settings)
    frames = frame_table(Schemas.load(), records)
    ordered = with_order(frames, [record.paired_sequence for *_, record in records])
    return run_frames_suite(ordered, time.time_ns() + CLOCKS)


def audit_table(result: SuiteResult) -> Table:
    """Return a table with the result of each expectation."""
    table = Table("expectation", "weight", "result", box=None, pad_edge=False)
    for outcome in result.outcomes:
        text = (
            "holds"
            if outcome.success
            else f"[red]{outcome.unexpected_count} of {result.rows} rows do not hold[/]"
        )
        table.add_row(outcome.id, outcome.severity, text)
    return table
