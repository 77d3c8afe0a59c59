"""The traffic of the soak: connections break no rule, and are replaced."""

from __future__ import annotations

import io
import itertools

import pytest

from decoders.frame.record import Closing, Kind
from decoders.schema.registry import default_schemas
from decoders.wire.pcap import read_capture
from streaming.bench.check import CONNECTIONS
from streaming.check.examination import records_of
from tests.e2e import soak


@pytest.mark.slow
def test_connections_are_replaced_and_nothing_is_lost() -> None:
    rate = 2 * CONNECTIONS
    blocks = itertools.islice(soak.traffic(rate), 1 + 2 * soak.RECONNECT_SECONDS * 3)
    records, tracker = records_of(default_schemas(), read_capture(io.BytesIO(b"".join(blocks))), (9092,), 1)
    closings = [record.closing for record in records if record.kind is Kind.CLOSED]
    assert closings.count(Closing.REPLACED) == CONNECTIONS
    assert tracker.ledger.fates()["lost"] == 0
