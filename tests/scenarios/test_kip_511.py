"""KIP-511's scenarios with a real broker: unsupported version, fallback, malformed name, SASL."""

from __future__ import annotations

import pytest

from streaming.broker.ports import HOST
from streaming.probe.client import find_coordinator, negotiate
from tests.scenarios.client_requests import authenticate, send_as_version
from tests.scenarios.stage import Stage, found

pytestmark = pytest.mark.jvm

UNSUPPORTED = 99
SOFTWARE = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1"}


def _ask_unsupported(stage: Stage, *retries: int) -> set[str]:
    """A client asks with a version that the broker does not have, and then with others."""
    with stage.watch(stage.old) as watch, watch.client() as client:
        send_as_version(client, "ApiVersions", 3, UNSUPPORTED, **SOFTWARE)
        stage.clock.settle()
        for version in retries:
            if version > 5:
                send_as_version(client, "ApiVersions", 3, version, **SOFTWARE)
            else:
                negotiate(client, version)
    return found(stage.examine(watch))


@pytest.mark.parametrize("version", range(6))
def test_a_client_falls_back_to_any_version_of_the_range(stage: Stage, version: int) -> None:
    """The version that nobody has is unknown to the schemas, too. Version 0 wastes the range it was told."""
    wasted = {"kip511/fallback-version-wrong"} if version == 0 else set()
    assert _ask_unsupported(stage, version) == {"wire/unknown-api"} | wasted


def test_a_client_that_gives_up_does_nothing_wrong(stage: Stage) -> None:
    assert _ask_unsupported(stage) == {"wire/unknown-api"}


@pytest.mark.parametrize("version", [UNSUPPORTED, UNSUPPORTED - 1])
def test_a_client_that_insists_is_told(stage: Stage, version: int) -> None:
    assert _ask_unsupported(stage, version) == {"wire/unknown-api", "kip511/fallback-version-wrong"}


def test_a_malformed_client_that_goes_on_is_told(stage: Stage) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        assert negotiate(client, clientSoftwareName="RP Console")["errorCode"] == 42
        stage.clock.settle()
        find_coordinator(client, 6)
    assert found(stage.examine(watch)) == {"kip511/software-name-malformed", "kip511/connection-kept"}


def test_sasl_has_two_api_versions_and_the_second_names_the_software(stage: Stage) -> None:
    with stage.watch((HOST, stage.broker.secured_port)) as watch, watch.client() as client:
        negotiate(client, 0)
        authenticate(client)
        negotiate(client)
        client.request("Metadata", {}, version=13)
    examination = stage.examine(watch)
    assert found(examination) == set()
    assert {client.client_software_name for client in examination.clients} == {"kipwatch-probe"}
