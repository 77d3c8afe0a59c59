"""KIP-35 with a real broker: every entry of its advertisement, obeyed and disobeyed."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from decoders.schema.registry import Api, default_schemas
from streaming.check.examination import Examination
from streaming.probe.client import InstanceClient, negotiate, send
from tests.mutations.bodies import filled
from tests.scenarios.client_requests import send_as_version
from tests.scenarios.stage import Stage

pytestmark = pytest.mark.jvm

SCHEMAS = default_schemas()
NOT_HERE = ("ApiVersions", "SaslHandshake", "SaslAuthenticate", "Fetch", "Produce")
"""What has a test of its own, or waits, or is advertised in versions that are gone."""
OFFENCES = {
    "kip35/version-out-of-range",
    "kip35/version-refused",
    "wire/unknown-api",
    "wire/malformed-request",
}
"""The body is that of the version beside it; where the schemas know the one claimed, it does not fit."""


def _hosts() -> Iterator[str]:
    """Hosts by which connections are told apart: the kernel soon gives a port out again."""
    return map(str, ip_network("127.0.4.0/22").hosts())


def _advertised(client: InstanceClient) -> list[tuple[Api, int, int]]:
    entries = [
        (SCHEMAS.api(entry["apiKey"]), entry["minVersion"], entry["maxVersion"])
        for entry in negotiate(client)["apiKeys"]
    ]
    return [(api, low, high) for api, low, high in entries if api is not None and api.name not in NOT_HERE]


@pytest.fixture(scope="module")
def advertised(stage: Stage) -> list[tuple[Api, int, int]]:
    """What the broker lists."""
    with stage.watch(stage.old) as watch, watch.client() as client:
        return _advertised(client)


def test_every_entry_can_be_obeyed(stage: Stage, advertised: list[tuple[Api, int, int]]) -> None:
    """The lowest and the highest version of each: the broker takes them, whatever it makes of the bodies."""
    assert len(advertised) > 50
    with stage.watch(stage.old) as watch:
        for api, lowest, highest in advertised:
            for version in {lowest, highest}:
                with watch.client() as client:
                    negotiate(client)
                    stage.clock.settle()
                    send(client, api.name, version, **filled(api.request.struct, version))
    examination = stage.examine(watch)
    assert not {finding.rule for finding in examination.findings if finding.kip == "KIP-35"}
    assert {finding.role for finding in examination.findings} <= {"client"}


def test_every_entry_can_be_disobeyed(stage: Stage, advertised: list[tuple[Api, int, int]]) -> None:
    asked: dict[str, tuple[str, int]] = {}
    with stage.watch(stage.old) as watch:
        hosts = _hosts()
        for api, lowest, highest in advertised:
            for version in (lowest - 1, highest + 1):
                with watch.client(host=next(hosts)) as client:
                    asked[client.address] = api.name, version
                    negotiate(client)
                    stage.clock.settle()
                    send_as_version(client, api.name, highest, version)
    told = told_of(stage.examine(watch), asked)
    assert all("kip35/version-out-of-range" in rules <= OFFENCES for rules in told.values()), told


def test_what_is_not_listed_is_told(stage: Stage, advertised: list[tuple[Api, int, int]]) -> None:
    listed = {api.name for api, _, _ in advertised} | set(NOT_HERE)
    others = [api for api in SCHEMAS.apis if api.versions and api.name not in listed]
    asked: dict[str, tuple[str, int]] = {}
    with stage.watch(stage.old) as watch:
        for api, host in zip(others, _hosts(), strict=False):
            with watch.client(host=host) as client:
                version = api.versions.lowest
                asked[client.address] = api.name, version
                negotiate(client)
                stage.clock.settle()
                send(client, api.name, version, **filled(api.request.struct, version))
    told = told_of(stage.examine(watch), asked)
    refused = {"kip35/api-not-advertised", "kip35/version-refused"}
    assert all("kip35/api-not-advertised" in rules <= refused for rules in told.values()), told


def test_a_removed_version_is_told_where_nobody_asks(stage: Stage) -> None:
    """Kafka 4 closes upon Fetch v3, whose first bytes are those of version 4."""
    with stage.watch(stage.old) as watch:
        with watch.client() as client:
            client.request("Metadata", {}, version=12)
        for host, _ in zip(_hosts(), range(3), strict=False):
            with watch.client(client_id="old", host=host) as client:
                send_as_version(client, "Fetch", 4, 3)
    findings = stage.examine(watch).findings
    refused = [each for each in findings if each.rule == "kip35/version-refused"]
    assert len(refused) == 3
    assert {each.rule for each in findings} == {"kip35/version-refused", "wire/unknown-api"}


def told_of(examination: Examination, asked: dict[str, tuple[str, int]]) -> dict[tuple[str, int], set[str]]:
    """The rules that each connection broke, by what was asked there."""
    told = {request: set[str]() for request in asked.values()}
    for finding in examination.findings:
        told[asked[finding.client]].add(finding.rule)
    assert told
    return told
