"""Four ways, one truth: `check` and the query, live, recorded and relayed, have the same findings.

At 1, 2 and 8 partitions of the frames topic, on one machine and on a standalone cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streaming.feeder.capture import can_capture
from tests.e2e.four_ways import LIVE, RELAY, WAYS, Traffic, play_clients
from tests.e2e.standalone import cluster, lacks_our_packages

PARTITIONS = (1, 2, 8)
LOCAL, CLUSTER = "local[2]", "cluster"

pytestmark = [
    pytest.mark.long,
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.capture,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(not can_capture(), reason="not permitted to capture packets"),
    pytest.mark.skipif(not lacks_our_packages(), reason="no Python for the workers without our packages"),
]


@pytest.fixture(scope="module", params=PARTITIONS, ids=lambda count: f"partitions-{count}")
def traffic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """The demo's clients, played once and fed on every way."""
    with ExitStack() as stack:
        yield play_clients(stack, tmp_path_factory.mktemp("ways"), request.param)


def test_what_is_captured_and_what_is_relayed_have_the_same_findings(traffic: Traffic) -> None:
    checked = traffic.checked(LIVE)
    assert len(checked) > 40
    assert traffic.checked(RELAY) == checked


@pytest.mark.parametrize("master", [LOCAL, CLUSTER])
@pytest.mark.parametrize("way", WAYS)
def test_the_query_finds_what_check_finds(traffic: Traffic, way: str, master: str, tmp_path: Path) -> None:
    name = f"{way}-{master.partition('[')[0]}"
    with ExitStack() as stack:
        address = master if master == LOCAL else stack.enter_context(cluster(tmp_path))
        assert traffic.judged(way, address, name) == traffic.checked(LIVE)
