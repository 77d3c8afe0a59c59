"""The APIs and versions of the release, and those with the overlay."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from decoders.codec.program import Program, compile_message
from decoders.schema.model import VersionRange
from decoders.schema.overlay import KIP_1313
from decoders.schema.registry import Api, Schemas, default_schemas
from decoders.schema.table import COMMITTED_TABLE

SCHEMAS = default_schemas()
LIVING = [pytest.param(api, id=api.name) for api in SCHEMAS.apis if api.versions]
SASL_HANDSHAKE, OFFSET_DELETE = 17, 47


def api(name: str) -> Api:
    found = SCHEMAS.api_named(name)
    assert found is not None
    return found


def shape(program: Program) -> object:
    """A program's layout, comparable with another's."""
    fields = [*program.fields, *program.tagged.values()]
    return program.flexible, [
        (
            field.kind,
            field.path,
            field.nullable,
            field.compact,
            field.tag,
            field.default,
            field.program and shape(field.program),
            field.element and field.element.kind,
            field.element and field.element.program and shape(field.element.program),
        )
        for field in fields
    ]


def test_the_committed_release() -> None:
    assert (SCHEMAS.release, SCHEMAS.overlay, len(SCHEMAS.apis)) == ("4.4.0", "KIP-1313", 95)
    ranges = [api.release_versions for api in SCHEMAS.apis if api.release_versions]
    assert sum(versions.highest - versions.lowest + 1 for versions in ranges) == 309


def test_apis_that_kafka_4_removed_are_known_without_versions() -> None:
    for key, name in (
        (4, "LeaderAndIsr"),
        (5, "StopReplica"),
        (6, "UpdateMetadata"),
        (7, "ControlledShutdown"),
    ):
        removed = SCHEMAS.api(key)
        assert removed is not None
        assert (removed.name, bool(removed.versions), removed.release_versions) == (name, False, None)
        assert not removed.is_overlay(0)


def test_an_unknown_api_is_none() -> None:
    assert SCHEMAS.api(12345) is None
    assert SCHEMAS.api_named("Nothing") is None


@pytest.mark.parametrize("api", LIVING)
def test_the_overlay_adds_one_version_on_header_3_to_all_but_sasl_handshake(api: Api) -> None:
    assert api.release_versions is not None
    added = api.release_versions.highest + 1
    if api.key == SASL_HANDSHAKE:
        assert api.versions == api.release_versions
        assert not api.is_overlay(added)
        return
    assert api.versions == VersionRange(api.release_versions.lowest, added)
    assert [version for version in range(-1, 99) if api.is_overlay(version)] == [added]
    assert [version for version in range(-1, 99) if api.request_header_version(version) == 3] == [added]


EXCEPTIONS = {"OffsetDelete", "GetTelemetrySubscriptions", "PushTelemetry", "SaslHandshake"}


@pytest.mark.parametrize("api", [each for each in LIVING if each.id not in EXCEPTIONS])
def test_a_version_of_the_overlay_has_the_body_of_the_one_before(api: Api) -> None:
    added = api.versions.highest
    for message in (api.request, api.response):
        assert shape(compile_message(message, added)) == shape(compile_message(message, added - 1))


def test_the_three_exceptions_of_the_kip() -> None:
    def names(which: str, version: int) -> list[str]:
        name, _, kind = which.partition(".")
        message = api(name).request if kind == "request" else api(name).response
        return [field.name for field in compile_message(message, version).fields]

    assert names("GetTelemetrySubscriptions.request", 0) == ["clientInstanceId"]
    assert names("GetTelemetrySubscriptions.request", 1) == []
    assert "clientInstanceId" in names("GetTelemetrySubscriptions.response", 0)
    assert "clientInstanceId" not in names("GetTelemetrySubscriptions.response", 1)
    assert names("PushTelemetry.request", 0)[1:] == names("PushTelemetry.request", 1)
    for message in (api("OffsetDelete").request, api("OffsetDelete").response):
        assert [message.is_flexible(version) for version in (0, 1)] == [False, True]


def test_the_overlay_leaves_its_table_alone() -> None:
    table = json.loads(COMMITTED_TABLE.read_text())
    before = copy.deepcopy(table)
    KIP_1313.laid_over(table, "plain")
    assert table == before


def test_the_one_unstable_version() -> None:
    unstable = [(api.name, api.unstable_version) for api in SCHEMAS.apis if api.unstable_version is not None]
    assert unstable == [("InitProducerId", 6)]
    assert api("InitProducerId").versions.highest == 7


def test_header_versions_of_the_release() -> None:
    for living in SCHEMAS.apis:
        for version in range(living.versions.lowest, living.versions.highest + 1):
            if not living.is_released(version):
                continue
            flexible = living.request.is_flexible(version)
            assert living.request_header_version(version) == (2 if flexible else 1)
            answered_plainly = living.name == "ApiVersions" or not flexible
            assert living.response_header_version(version) == (0 if answered_plainly else 1)


def test_header_versions_of_the_exceptions() -> None:
    versions, shutdown, delete = api("ApiVersions"), api("ControlledShutdown"), api("OffsetDelete")
    assert [versions.request_header_version(version) for version in (-1, 2, 3, 6, 99)] == [1, 1, 2, 3, 2]
    assert {versions.response_header_version(version) for version in (0, 3, 6, 99)} == {0}
    assert shutdown.request_header_version(0) == 0
    assert [delete.request_header_version(version) for version in (0, 1)] == [1, 3]
    assert [delete.response_header_version(version) for version in (0, 1)] == [0, 1]
    assert api("SaslHandshake").request_header_version(1) == 1


def test_schemas_travel_to_other_processes() -> None:
    travelled = pickle.loads(pickle.dumps(SCHEMAS))
    assert isinstance(travelled, Schemas)
    assert [(api.name, api.versions) for api in travelled.apis] == [
        (api.name, api.versions) for api in SCHEMAS.apis
    ]


@pytest.mark.parametrize("text", ["none", "0", "3", "0-4", "2+"])
def test_version_ranges_read_and_print(text: str) -> None:
    assert str(VersionRange.parse(text)) == text


@pytest.mark.parametrize("text", ["", "a", "-1", "1-", "4-2", "1++", "99999", "\u0661"])
def test_what_is_no_version_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version|runs backwards"):
        VersionRange.parse(text)
