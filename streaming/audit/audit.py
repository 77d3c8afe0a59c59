"""The audit: validates the latest frames of the topic with the Great Expectations suites, without Spark."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from rich.table import Table

from decoders.schema.registry import Schemas
from expectations.suites.frame_order import with_order
from expectations.suites.frame_table import frame_table
from expectations.suites.frames import run_frames_suite
from expectations.suites.records import records_suite, records_table
from expectations.suites.validation import SuiteResult, validate
from streaming.audit.frames_topic import TopicSlice, latest_slice
from streaming.settings.kafka_client import Setting
from streaming.user_error import UserError

CLOCKS = 300 * 1_000_000_000
"""Nanoseconds: how far clocks of hosts may differ."""


def audit(
    bootstrap: str, topic: str, limit: int, settings: Mapping[str, Setting] = MappingProxyType({})
) -> list[SuiteResult]:
    """Read the last `limit` frames, evenly over the partitions; validate them, and the records they are in.

    Raises UserError if Kafka cannot be reached, the topic does not exist, or it holds other records only.
    """
    found = latest_slice(bootstrap, topic, limit, settings)
    _demand_frames(topic, found)
    records = validate(records_suite(), records_table(found.blocks))
    frames = frame_table(Schemas.load(), found.frames)
    ordered = with_order(frames, [record.paired_sequence for *_, record in found.frames])
    return [records, run_frames_suite(ordered, time.time_ns() + CLOCKS)]


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


def _demand_frames(topic: str, found: TopicSlice) -> None:
    refused = [(partition, offset, line) for partition, offset, line in found.blocks if line is not None]
    if refused and len(refused) == len(found.blocks):
        partition, offset, line = refused[-1]
        place = f"{topic}, partition {partition}, offset {offset}"
        raise UserError(f"{place} holds no frames of kipwatch: {line}; check --frames-topic")
