"""The schemas of other releases than the committed one, from their own jars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from decoders.codec.request import read_request
from decoders.codec.response import read_response
from decoders.schema.registry import Schemas
from decoders.schema.table import read_table

ReleaseJar = Callable[[str], Path]
APIS = {"3.9.1": 88, "4.0.0": 88, "4.1.1": 93, "4.2.0": 93, "4.3.0": 93, "4.4.0": 95}
pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("release", APIS)
def test_a_release_loads(release_jar: ReleaseJar, release: str) -> None:
    schemas = Schemas.of(read_table(release_jar(release)))
    assert (schemas.release, len(schemas.apis), schemas.overlay) == (release, APIS[release], "KIP-1313")


def versions(jar: Path, name: str) -> tuple[str, bool] | None:
    """The versions of an API in a release, and whether the latest is unstable; None if it has none."""
    api = Schemas.of(read_table(jar)).api_named(name)
    return None if api is None else (str(api.release_versions), api.unstable_version is not None)


def test_what_changed_between_releases_is_seen(release_jar: ReleaseJar) -> None:
    oldest, newest = release_jar("4.0.0"), release_jar("4.4.0")
    assert versions(oldest, "ShareGroupHeartbeat") == ("0", True)
    assert versions(newest, "ShareGroupHeartbeat") == ("1", False)
    assert versions(oldest, "ApiVersions") == ("0-4", False)
    assert versions(newest, "ApiVersions") == ("0-5", False)
    assert versions(oldest, "StreamsGroupHeartbeat") is None
    assert versions(release_jar("4.1.1"), "StreamsGroupHeartbeat") == ("0", True)


def test_a_frame_that_a_release_cannot_know_is_known_to_the_next(release_jar: ReleaseJar) -> None:
    frame = bytes.fromhex("0012 0005 00000007 0003 636964 00 0278 0231 0263 00000003 00")
    assert read_request(Schemas.of(read_table(release_jar("4.3.0"))), frame).known is False
    body = read_request(Schemas.of(read_table(release_jar("4.4.0"))), frame).body
    assert body is not None
    assert (body["clusterId"], body["nodeId"]) == ("c", 3)


def test_controlled_shutdown_v0_had_a_header_without_a_client_id(release_jar: ReleaseJar) -> None:
    schemas = Schemas.of(read_table(release_jar("3.9.1")))
    request = read_request(schemas, bytes.fromhex("0007 0000 00000007 00000002"))
    assert (request.header_version, request.client_id, request.body) == (0, None, {"brokerId": 2})
    assert (request.failure, request.remarks) == (None, ())
    named = read_request(schemas, bytes.fromhex("0007 0001 00000007 0001 63 00000002"))
    assert (named.header_version, named.client_id, named.body) == (1, "c", {"brokerId": 2})
    answer = read_response(schemas, bytes.fromhex("00000007 0000 00000000"), 7, 0)
    assert (answer.header_version, answer.body) == (0, {"errorCode": 0, "remainingPartitions": []})


def test_a_release_says_which_versions_a_later_one_removes(release_jar: ReleaseJar) -> None:
    """KIP-896: deprecated in 3.9.1, gone in 4.0.0."""
    older, newer = (
        Schemas.of(read_table(release_jar(each))).api_named("JoinGroup") for each in ("3.9.1", "4.0.0")
    )
    assert older is not None and newer is not None
    assert (str(older.request.deprecated_versions), str(older.release_versions)) == ("0-1", "0-9")
    assert (str(newer.request.deprecated_versions), str(newer.release_versions)) == ("none", "2-9")
