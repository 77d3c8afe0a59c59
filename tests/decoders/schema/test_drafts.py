"""Drafts as folders: the changes of real KIPs, written from their texts, and what is wrong with others."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decoders.codec.program import compile_message, default_values
from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.header_versions import Layout
from decoders.schema.lint import lint
from decoders.schema.model import SchemaError
from decoders.schema.registry import Schemas
from decoders.schema.table import read_folder, read_jar, read_table

DRAFTS = Path(__file__).parent / "drafts"
BASE = DRAFTS / "base"
REFUSED = "kip-518-early"
"""A revision of KIP-518 before its vote: an array of strings with fields of its own."""
VERSIONS = {
    "base": {"ListGroups": "0-3", "ApiVersions": "0-2", "ConsumerGroupHeartbeat": "0"},
    "kip-511": {"ApiVersions": "0-3"},
    "kip-518": {"ListGroups": "0-4"},
    "kip-848": {"ListGroups": "0-5"},
    "kip-1082": {"ConsumerGroupHeartbeat": "0-1"},
    "kip-1313": {"ListGroups": "0-4", "ApiVersions": "0-4", "ConsumerGroupHeartbeat": "0-1"},
}
"""The release's versions of what each draft changes; the drafts of KIP-848 and KIP-1313 lie over others."""


@pytest.mark.parametrize("draft", VERSIONS)
def test_a_draft_has_its_versions_and_nothing_is_wrong_with_it(draft: str) -> None:
    schemas = Schemas.of(read_table(DRAFTS / draft))
    versions = {api.name: str(api.release_versions) for api in schemas.apis}
    assert versions == VERSIONS["base"] | VERSIONS[draft]
    assert lint(DRAFTS / draft) == []


@pytest.mark.parametrize("draft", VERSIONS)
def test_every_version_of_a_draft_is_written_and_read(draft: str) -> None:
    schemas = Schemas.of(read_table(DRAFTS / draft))
    for api in schemas.apis:
        assert api.release_versions is not None
        for version in range(api.release_versions.lowest, api.release_versions.highest + 1):
            body = default_values(compile_message(api.request, version))
            request = read_request(schemas, write_request(schemas, api.key, version, 7, "c", body))
            assert (request.known, request.failure, request.body) == (True, None, body)
            body = default_values(compile_message(api.response, version))
            frame = write_response(schemas, api.key, version, 7, body)
            response = read_response(schemas, frame, api.key, version)
            assert (response.known, response.failure, response.body) == (True, None, body)


def test_a_draft_of_header_3_is_believed_without_proof() -> None:
    """The user says what it means. The overlay that is always there must prove its layout."""
    schemas = Schemas.of(read_table(DRAFTS / "kip-1313"))
    assert (schemas.overlay, schemas.release) == (None, "base+KIP-511+KIP-1313")
    frame = write_request(schemas, "ListGroups", 4, 7, "c", {}, bytes(16))
    request = read_request(schemas, frame, cut=True)
    assert (request.known, request.layout, request.client_instance_id) == (True, Layout.PLAIN, bytes(16))
    assert not read_request(Schemas.of(read_table(BASE)), frame, cut=True).known


def test_kafkas_generator_would_refuse_an_early_revision() -> None:
    (fault,) = lint(DRAFTS / REFUSED)
    assert str(fault) == (
        "ListGroupsRequest.json:6: field States: a field of type []string has no fields of its own"
    )
    with pytest.raises(SchemaError, match="field States"):
        Schemas.of(read_table(DRAFTS / REFUSED))


def test_versions_that_are_not_released_may_become_flexible_or_not(tmp_path: Path) -> None:
    """Of ApiVersions 0 to 2 are released; a base may say beforehand from which version on it is flexible."""
    draft = drafted(tmp_path)
    for name in ("ApiVersionsRequest", "ApiVersionsResponse"):
        path = tmp_path / "drafts" / "base" / f"{name}.json"
        released = json.loads(path.read_text())
        path.write_text(json.dumps(released | {"flexibleVersions": "3+"}))
        (draft / path.name).write_text(json.dumps(released | {"flexibleVersions": "none"}))
    assert lint(draft) == []


def drafted(folder: Path, **files: Callable[[dict[str, Any]], None]) -> Path:
    """Copy the drafts, and change message files of that of KIP-518, by name."""
    shutil.copytree(DRAFTS, folder / "drafts")
    draft = folder / "drafts" / "kip-518"
    for name, change in files.items():
        path = draft / f"{name}.json"
        source = path if path.exists() else folder / "drafts" / "base" / f"{name}.json"
        document = json.loads(source.read_text())
        change(document)
        path.write_text(json.dumps(document, indent=1))
    return draft


def has_versions(versions: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(validVersions=versions)


def adds(**field: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["fields"].append(field)


def has_flexible(versions: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(flexibleVersions=versions)


def has_type(type_: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["fields"][1].update(type=type_)


TAGGED = {"versions": "0+", "taggedVersions": "0+", "tag": 0}
WRONG = [
    pytest.param(
        {"ListGroupsRequest": has_versions("0-9")},
        "ListGroupsRequest.json: its response has versions 0-4",
        id="a request alone has a new version",
    ),
    pytest.param(
        {"ListGroupsRequest": adds(name="Limit", type="int32", versions="2+")},
        "ListGroupsRequest.json:17: limit was absent and is int32 in v2, v3, already released",
        id="a new field in an old version",
    ),
    pytest.param(
        {"ListGroupsResponse": has_type("int32")},
        "ListGroupsResponse.json:15: errorCode was int16 and is int32 in v0, v1, v2, v3, already released",
        id="another type in an old version",
    ),
    pytest.param(
        {"ApiVersionsRequest": has_flexible("1+"), "ApiVersionsResponse": has_flexible("1+")},
        "ApiVersionsRequest.json: flexible versions were none and are 1+, some already released",
        id="an old version becomes flexible",
    ),
    pytest.param(
        {
            "ConsumerGroupHeartbeatRequest": has_flexible("1+"),
            "ConsumerGroupHeartbeatResponse": has_flexible("1+"),
        },
        "ConsumerGroupHeartbeatRequest.json: flexible versions were 0+ and are 1+, some already released",
        id="an old version is flexible no more",
    ),
    pytest.param(
        {"ConsumerGroupHeartbeatRequest": lambda document: document.update(headerVersions={"0+": "1"})},
        "ConsumerGroupHeartbeatRequest.json: v0, already released, had header 2 and has 1",
        id="another header of an old version",
    ),
]


@pytest.mark.parametrize(("files", "said"), WRONG)
def test_what_breaks_released_versions_is_named(
    tmp_path: Path, files: dict[str, Callable[[dict[str, Any]], None]], said: str
) -> None:
    faults = [str(fault) for fault in lint(drafted(tmp_path, **files))]
    assert said in faults


def test_a_tag_belongs_to_one_field_for_ever(tmp_path: Path) -> None:
    first = drafted(tmp_path, ConsumerGroupHeartbeatRequest=adds(name="Rack", type="string", **TAGGED))
    second = tmp_path / "drafts" / "second"
    second.mkdir()
    (second / "overlay.json").write_text('{"base": "../kip-518"}')
    text = (first / "ConsumerGroupHeartbeatRequest.json").read_text()
    (second / "ConsumerGroupHeartbeatRequest.json").write_text(text.replace('"Rack"', '"Zone"'))
    assert lint(first) == []
    assert "ConsumerGroupHeartbeatRequest.json:27: field zone: tag 0 belongs to rack, a released field" in [
        str(fault) for fault in lint(second)
    ]


def test_a_tagged_field_or_a_new_version_breaks_nothing(tmp_path: Path) -> None:
    added = adds(name="Limit", type="int32", versions="4+")
    tagged = adds(name="Rack", type="string", **TAGGED)
    assert lint(drafted(tmp_path, ListGroupsRequest=added, ConsumerGroupHeartbeatRequest=tagged)) == []


def test_a_new_api_breaks_nothing(tmp_path: Path) -> None:
    draft = drafted(tmp_path)
    field = {"name": "Rack", "type": "string", "versions": "0+"}
    new = {"apiKey": 999, "validVersions": "0", "flexibleVersions": "0+", "fields": [field]}
    for kind in ("request", "response"):
        name = f"Fresh{kind.capitalize()}"
        (draft / f"{name}.json").write_text(json.dumps({**new, "type": kind, "name": name}))
    assert lint(draft) == []


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    draft = drafted(tmp_path)
    (draft / "One.json").write_text("{\n")
    (draft / "Two.json").write_text("[]")
    names = [fault.file for fault in lint(draft)]
    assert names == ["One.json", "Two.json"]


@pytest.mark.parametrize(
    ("overlay", "said"),
    [
        ('{"bases": "x"}', "unknown field `bases`"),
        ("{", "truncated"),
        ('{"base": "nowhere"}', "nowhere: cannot be read"),
        ('{"base": "."}', "its base is laid over the folder itself"),
        ('{"readings": {"a": []}}', "a draft has one reading"),
    ],
)
def test_an_overlay_that_cannot_be_laid_is_refused(tmp_path: Path, overlay: str, said: str) -> None:
    (tmp_path / "overlay.json").write_text(overlay)
    with pytest.raises(SchemaError, match=said):
        read_folder(tmp_path)


def test_overlays_that_lie_over_each_other_are_refused(tmp_path: Path) -> None:
    for name, base in (("one", "../other"), ("other", "../one")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "overlay.json").write_text(json.dumps({"base": base}))
    with pytest.raises(SchemaError, match="its base is laid over the folder itself"):
        read_folder(tmp_path / "one")


def test_a_tagged_field_cannot_be_removed(tmp_path: Path) -> None:
    """It is in all versions from its first one on, and may state nothing but those."""
    extra = {"name": "Extra", "type": "int32", "taggedVersions": "0+", "tag": 0}
    draft = drafted(tmp_path, ConsumerGroupHeartbeatRequest=adds(**extra))
    over = tmp_path / "over"
    over.mkdir()
    change = {"messages": ["ConsumerGroupHeartbeatRequest"], "newVersion": True, "removed": ["Extra"]}
    (over / "overlay.json").write_text(json.dumps({"base": str(draft), "changes": [change]}))
    with pytest.raises(SchemaError, match=r"taggedVersions 0\+ are not all versions of the field"):
        Schemas.of(read_table(over))


def test_a_folder_without_schemas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"holds neither message files \(\*\.json\) nor overlay\.json"):
        read_folder(tmp_path)


def test_message_files_of_a_checkout_are_those_of_its_jar(tmp_path: Path, kafka_clients_jar: Path) -> None:
    folder = tmp_path / "clients/src/main/resources/common/message"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(kafka_clients_jar) as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                (folder / Path(name).name).write_bytes(jar.read(name))
    (tmp_path / "gradle.properties").write_text("group=org.apache.kafka\nversion=4.4.0\n")
    assert read_folder(tmp_path) == read_folder(folder) == read_jar(kafka_clients_jar)


def test_a_release_with_its_differences_to_the_next_is_the_next(
    tmp_path: Path, kafka_clients_jar: Path, release_jar: Callable[[str], Path]
) -> None:
    older, newer = read_jar(release_jar("4.3.0")), read_jar(kafka_clients_jar)
    for message in newer["messages"]:
        if message not in older["messages"]:
            (tmp_path / f"{message['name']}.json").write_text(json.dumps(message))
    assert 0 < len(list(tmp_path.iterdir())) < 40
    (tmp_path / "overlay.json").write_text(json.dumps({"base": str(release_jar("4.3.0"))}))
    assert read_folder(tmp_path)["messages"] == newer["messages"]
