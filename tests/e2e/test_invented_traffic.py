"""Invented traffic is what its tests take it for, and is read without loss."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from typing import Final

import pytest

from decoders.codec.request import Request, read_request
from decoders.frame.record import Closing, Kind, Record
from decoders.schema.registry import default_schemas
from decoders.wire.pcap import read_capture
from decoders.wire.tracker import Tracker
from streaming.bench.check import CONNECTIONS
from tests.e2e import million_names, soak

BLOCKS: Final = 2
NAMES: Final = BLOCKS * million_names.NAMES_OF_BLOCK


def test_each_of_a_million_names_is_said_once_and_nothing_is_lost() -> None:
    schemas = default_schemas()
    blocks = million_names.capture(NAMES, 10**18, 10**9)
    tracker, records = _read(blocks)
    requests = [read_request(schemas, record.frame) for record in records if record.kind is Kind.REQUEST]
    assert not [request for request in requests if request.failure or not request.known]
    assert {request.client_id for request in requests} == {f"client-{number:07}" for number in range(NAMES)}
    assert len({request.client_instance_id for request in requests} - {None}) == NAMES
    for name in ("clientSoftwareName", "clientSoftwareVersion", "memberId", "groupId", "instanceId"):
        assert len(_values(requests, name)) == NAMES
    closed = [record for record in records if record.kind is Kind.CLOSED]
    assert len(closed) == (BLOCKS - 1) * million_names.CONNECTIONS_OF_BLOCK
    assert tracker.ledger.fates()["lost"] == 0


def _read(blocks: Iterable[bytes]) -> tuple[Tracker, list[Record]]:
    tracker = Tracker(default_schemas(), ports=frozenset({9092}), run=1)
    taken = [tracker.feed(packet) for packet in read_capture(io.BytesIO(b"".join(blocks)))]
    return tracker, [*itertools.chain.from_iterable(taken), *tracker.finish()]


def _values(requests: list[Request], name: str) -> set[str]:
    return {request.body[name] for request in requests if request.body and name in request.body}


@pytest.mark.slow
def test_connections_of_the_soak_are_replaced_and_nothing_is_lost() -> None:
    rate = 2 * CONNECTIONS
    blocks = itertools.islice(soak.traffic(rate), 1 + 2 * soak.RECONNECT_SECONDS * 3)
    tracker, records = _read(blocks)
    closings = [record.closing for record in records if record.kind is Kind.CLOSED]
    assert closings.count(Closing.REPLACED) == CONNECTIONS
    assert tracker.ledger.fates()["lost"] == 0
