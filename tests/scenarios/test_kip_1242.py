"""KIP-1242's scenarios with a real broker: bootstrapping, matched, half, misrouted, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.probe.client import InstanceClient, find_coordinator, negotiate
from tests.scenarios.stage import Stage, found

pytestmark = pytest.mark.jvm

NODE = 1
MISROUTED: dict[str, Any] = {"clusterId": "another-cluster", "nodeId": NODE}


def _use(client: InstanceClient) -> None:
    client.request("Metadata", {}, version=13)


def test_a_client_that_bootstraps_names_nobody(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        assert negotiate(client)["errorCode"] == 0
        _use(client)
    assert found(stage.examine(watch)) == set()


def test_a_client_that_meets_whom_it_means_goes_on(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        matched = negotiate(client, clusterId=stage.broker.cluster_id, nodeId=NODE)
        assert matched["errorCode"] == 0
        _use(client)
    assert found(stage.examine(watch)) == set()


@pytest.mark.parametrize("half", [{"clusterId": "a"}, {"nodeId": NODE}], ids=["cluster", "node"])
def test_a_client_that_names_half_is_refused(stage: Stage, half: dict[str, Any]) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        assert negotiate(client, **half)["errorCode"] == 42
    assert found(stage.examine(watch)) == {"kip1242/half-identified"}


def _misrouted(stage: Stage, **ids: Any) -> set[str]:
    """A client is told to rebootstrap, and opens its next connection with these IDs."""
    with stage.watch(stage.old) as watch:
        with watch.client() as client:
            assert negotiate(client, **MISROUTED)["errorCode"] == 129
        stage.clock.settle()
        with watch.client() as client:
            negotiate(client, **ids)
    return found(stage.examine(watch))


def test_a_misrouted_client_that_forgets_what_it_knew_is_well(stage: Stage) -> None:
    assert _misrouted(stage) == {"kip1242/misrouted"}


def test_a_misrouted_client_that_comes_back_with_its_ids_is_told(stage: Stage) -> None:
    assert _misrouted(stage, **MISROUTED) == {"kip1242/misrouted", "kip1242/rebootstrap-with-ids"}


def test_a_misrouted_client_that_goes_on_is_told(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        negotiate(client, **MISROUTED)
        stage.clock.settle()
        find_coordinator(client, 6)
    assert found(stage.examine(watch)) == {"kip1242/misrouted", "kip1242/rebootstrap-ignored"}
