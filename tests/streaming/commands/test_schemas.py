"""`kipwatch schemas`: the committed table, other releases, and what changed between two."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from decoders.schema.table import COMMITTED_TABLE
from tests.streaming.commands.ran import Kipwatch


def test_the_table_of_the_pinned_jar_is_the_committed_one(
    kipwatch: Kipwatch, kafka_clients_jar: Path
) -> None:
    ran = kipwatch("schemas", "import", kafka_clients_jar)
    assert (ran.status, ran.errors) == (0, "")
    assert ran.output == COMMITTED_TABLE.read_text()


def test_what_is_no_jar_is_named(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = tmp_path / "text.jar"
    path.write_text("no jar")
    assert kipwatch("schemas", "import", path).error_line.startswith(f"{path}: not a readable jar")


def test_alone_it_lists_the_apis_of_the_committed_release(
    kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ran = kipwatch("schemas")
    head, _, titles, *lines = ran.output.splitlines()
    assert (ran.status, head) == (0, "Kafka 4.4.0, with KIP-1313 over it: 95 APIs")
    assert titles.split() == ["key", "API", "versions", "flexible", "unstable", "overlay", "headers"]
    assert len(lines) == 95
    assert lines[18].split() == ["18", "ApiVersions", "0-5", "3+", "v6", "1", "2", "3"]
    assert lines[4].split() == ["4", "LeaderAndIsr", "none", "none"]
    assert lines[22].split()[1:5] == ["InitProducerId", "0-6", "2+", "v6"]
    assert kipwatch("schemas", "list", "committed").output == ran.output
    assert kipwatch("schemas", "list", COMMITTED_TABLE).output == ran.output


def test_the_list_as_one_object(kipwatch: Kipwatch) -> None:
    listed = json.loads(kipwatch("schemas", "list", "--json").output)
    assert (listed["release"], listed["overlay"], len(listed["apis"])) == ("4.4.0", "KIP-1313", 95)
    assert listed["apis"][47] == {
        "api_key": 47,
        "api": "OffsetDelete",
        "versions": "0",
        "flexible_versions": "1+",
        "overlay_version": 1,
        "unstable_version": None,
        "request_headers": {"0": 1, "1": 3},
    }


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The committed table without ApiVersions v5, one field and one API, as an older release."""
    table = json.loads(COMMITTED_TABLE.read_text())
    kept = [message for message in table["messages"] if message.get("apiKey") != 93]
    for message in kept:
        if message.get("apiKey") == 18:
            message["validVersions"] = "0-4"
        if message["name"] == "FetchRequest":
            message["fields"] = [field for field in message["fields"] if field["name"] != "MinBytes"]
    path = tmp_path / "older.json"
    path.write_text(json.dumps({**table, "release": "4.3.9", "messages": kept}))
    return path


def test_two_releases_are_compared(kipwatch: Kipwatch, older: Path) -> None:
    ran = kipwatch("schemas", "diff", older, "committed")
    head, added, *lines = ran.output.splitlines()
    assert (ran.status, head, added[0]) == (0, "Kafka 4.3.9 → 4.4.0", "+")
    place = lines.index("ApiVersionsRequest")
    assert lines[place + 1 : place + 4] == [
        "    versions: 0-4 → 0-5",
        "    + clusterId: string nullable default null (v5 against v4)",
        "    + nodeId: int32 default -1 (v5 against v4)",
    ]
    place = lines.index("StreamsGroupTopologyDescriptionUpdateRequest")
    assert lines[place + 1] == "    + groupId: string (v0)"
    place = lines.index("FetchRequest")
    versions = ", ".join(f"v{version}" for version in range(4, 19))
    assert lines[place + 1] == f"    + minBytes: int32 ({versions})"
    back = kipwatch("schemas", "diff", "committed", older).output
    assert f"    - minBytes: int32 ({versions})" in back


def test_a_comparison_as_one_object(kipwatch: Kipwatch, older: Path) -> None:
    listed = json.loads(kipwatch("schemas", "diff", older, "committed", "--json").output)
    assert (listed["older"], listed["newer"], len(listed["added"]), listed["removed"]) == (
        "4.3.9",
        "4.4.0",
        1,
        {},
    )
    (changed,) = [message for message in listed["messages"] if message["name"] == "ApiVersionsRequest"]
    assert changed["changes"] == [{"what": "versions", "before": "0-4", "after": "0-5"}]
    assert changed["fields"][1]["path"] == "nodeId"


def test_equal_releases_are_said_to_be_so(kipwatch: Kipwatch) -> None:
    ran = kipwatch("schemas", "diff", "committed", "committed")
    assert ran.output.splitlines()[1:] == ["no change affects the bytes on the wire"]


def test_a_schema_that_kafkas_generator_would_refuse_has_a_remark(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """The table is made nevertheless."""
    table = json.loads(COMMITTED_TABLE.read_text())
    path = tmp_path / "odd.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("kafka/kafka-version.properties", "version=9\n")
        for message in table["messages"]:
            if message["name"] == "OffsetDeleteRequest":
                message["headerVersions"] = {"0+": "7"}
            jar.writestr(f"common/message/{message['name']}.json", json.dumps(message))
    ran = kipwatch("schemas", "import", path)
    assert (ran.status, json.loads(ran.output)["release"]) == (0, "9")
    assert ran.errors == (
        "kipwatch: remark: OffsetDeleteRequest.json: headerVersions: "
        "versions 0+ use header 7, and RequestHeader has only 1-2\n"
    )
