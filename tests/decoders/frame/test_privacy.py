"""Every string, bytes and records field of every message is classified, and an unknown one is not kept."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from decoders.codec.request import read_request, write_request
from decoders.codec.response import read_response, write_response
from decoders.frame import privacy
from decoders.frame.columnar.cutting import ColumnarCutter
from decoders.frame.cutting import blank, cut
from decoders.frame.privacy import Privacy, classified, guard_of
from decoders.frame.record import Kind, Pairing, Record
from decoders.schema.model import Message, Struct
from decoders.schema.registry import Api, Schemas, default_schemas
from decoders.schema.table import COMMITTED_TABLE, parse_table
from streaming.transcript.frame import HIDDEN, DecodedFrame, hide_secrets
from tests.decoders.frame.columnar.batches import batch_of, record_of
from tests.decoders.frame.secret_content import CODED, SECRET, TEXT, without_secrets
from tests.repository.tree import ROOT

SCHEMAS = default_schemas()
MESSAGES = [message for api in SCHEMAS.apis for message in (api.request, api.response)]


def test_every_field_of_the_committed_schemas_is_classified() -> None:
    unclassified = [
        f"{message.name}.{path}"
        for message in MESSAGES
        for path, found in classified(message)
        if found is Privacy.UNCLASSIFIED
    ]
    assert not unclassified, "add each name to decoders/frame/privacy.py, after reading what the field holds"


def test_every_classified_name_is_one_of_the_committed_schemas() -> None:
    used = {
        ".".join(path.split(".")[-count:])
        for message in MESSAGES
        for path, _ in classified(message)
        for count in (1, 2)
    }
    assert {*privacy._STRINGS, *privacy._BYTES} <= used


def content(struct: Struct, version: int, path: list[str]) -> dict[str, Any] | None:
    """A struct with the secret at the path and no other field; None if the struct has no such field."""
    name, *rest = path
    field = next(field for field in struct.fields if field.name == name)
    if version not in field.versions:
        return None
    value: Any = CODED if field.type in {"bytes", "records"} else TEXT
    if field.struct is not None:
        value = content(field.struct, version, rest)
        if value is None:
            return None
    return {name: [value, value] if field.is_array else value}


def guarded(schemas: Schemas, api: Api) -> Iterator[tuple[str, Record]]:
    """A frame of an API for each version and each field that may not be kept, which alone has a content."""
    if not api.versions:
        return
    for message in (api.request, api.response):
        guard = guard_of(message)
        for version in range(api.versions.lowest, api.versions.highest + 1):
            for path in guard.cut + guard.blanked:
                body = content(message.struct, version, path.split("."))
                if body is not None:
                    yield path, record(schemas, api, message, version, body)


def record(schemas: Schemas, api: Api, message: Message, version: int, body: dict[str, Any]) -> Record:
    what: dict[str, Any] = {"connection": bytes(16)}
    if message.kind == "request":
        instance_id = bytes(range(16, 32)) if api.request_header_version(version) == 3 else None
        frame = write_request(schemas, api.key, version, 7, "client", body, instance_id)
        return record_of(Kind.REQUEST, 1, frame=frame, true_length=len(frame), **what)
    frame = write_response(schemas, api.key, version, 7, body)
    what |= {"pairing": Pairing.MATCHED, "paired_api_key": api.key, "paired_api_version": version}
    return record_of(Kind.RESPONSE, 1, frame=frame, true_length=len(frame), **what)


def body_of(schemas: Schemas, record: Record) -> dict[str, Any] | None:
    if record.kind is Kind.REQUEST:
        return read_request(schemas, record.frame, cut=record.is_cut).body
    key, version = record.paired_api_key, record.paired_api_version
    return read_response(schemas, record.frame, key, version, cut=record.is_cut).body


@functools.cache
def cutter(schemas: Schemas) -> ColumnarCutter:
    """One cutter for all APIs of the schemas: making one costs more than using it."""
    return ColumnarCutter(schemas)


def check(schemas: Schemas, api: Api) -> int:
    """Check that neither cutter, scalar or columnar, keeps any content; return the number of contents."""
    frames = list(guarded(schemas, api))
    columns = cutter(schemas).cut(batch_of([whole for _, whole in frames])).records()
    for (path, whole), column in zip(frames, columns, strict=True):
        kept, blanked = cut(schemas, whole), blank(schemas, whole)
        assert column == kept, path
        assert SECRET in whole.frame
        assert SECRET[:3] not in kept.frame + blanked.frame, path
        assert body_of(schemas, blanked) == without_secrets(body_of(schemas, whole)), path
    return len(frames)


@pytest.mark.parametrize("api", SCHEMAS.apis, ids=lambda api: api.name)
def test_no_guarded_field_is_kept_at_any_version(api: Api) -> None:
    count = check(SCHEMAS, api)
    has_guard = any(map(any, (guard_of(api.request), guard_of(api.response))))
    assert bool(count) == (has_guard and bool(api.versions))


INVENTED = [
    {"name": "AccessKey", "type": "string", "versions": "0+", "nullableVersions": "0+"},
    {"name": "Tickets", "type": "[]string", "versions": "0+"},
    {"name": "Blob", "type": "bytes", "versions": "0+"},
    {"name": "Name", "type": "bytes", "versions": "0+"},
    {"name": "Batches", "type": "records", "versions": "0+", "nullableVersions": "0+"},
    {"name": "Inner", "type": "[]Inner", "versions": "0+", "fields": [
        {"name": "Token", "type": "string", "versions": "0+"},
    ]},
]  # fmt: skip

INVENTED_PATHS = {"accessKey", "tickets", "blob", "name", "batches", "inner.token"}


def with_invented_fields(*names: str) -> Schemas:
    """The committed schemas, in which these messages have unclassified fields."""
    table = json.loads(COMMITTED_TABLE.read_text())
    for message in table["messages"]:
        if message["name"] in names:
            message["fields"] += copy.deepcopy(INVENTED)
    return Schemas.of(parse_table(json.dumps(table), "table"))


def test_invented_fields_of_a_schema_loaded_at_run_time_are_not_kept() -> None:
    names = ("HeartbeatRequest", "HeartbeatResponse", "FetchResponse", "ProduceRequest")
    schemas = with_invented_fields(*names)
    for name in ("Heartbeat", "Fetch", "Produce"):
        api = schemas.api_named(name)
        assert api is not None
        assert check(schemas, api)
        for message in (api.request, api.response):
            guard = guard_of(message)
            expected = INVENTED_PATHS if message.name in names else set()
            assert expected <= {*guard.cut, *guard.blanked}, message.name


def test_decode_hides_invented_fields() -> None:
    schemas = with_invented_fields("HeartbeatRequest")
    api = schemas.api_named("Heartbeat")
    assert api is not None
    body = {"groupId": "g", "accessKey": TEXT, "tickets": [TEXT, ""], "inner": [{"token": TEXT}]}
    frame = DecodedFrame("", "", "", "request", 1, 1, api_key=api.key, api="Heartbeat", body=body)
    hide_secrets(schemas, frame)
    assert frame.body == {
        "groupId": "g",
        "accessKey": HIDDEN,
        "tickets": [HIDDEN, ""],
        "inner": [{"token": HIDDEN}],
    }


def test_decode_hides_secrets_and_shows_what_is_merely_private() -> None:
    shown = {
        f"{message.name}.{path}"
        for message in MESSAGES
        for path in set(guard_of(message).blanked) - set(guard_of(message).hidden)
    }
    assert {path.split(".")[-1] for path in shown} == {
        "assignment",
        "committedMetadata",
        "memberAssignment",
        "memberMetadata",
        "metadata",
        "metrics",
        "value",
    }
    assert {path for path in shown if path.endswith("value")} == {
        "StreamsGroupHeartbeatRequest.clientTags.value",
        "StreamsGroupDescribeResponse.groups.members.clientTags.value",
    }


def test_the_page_on_privacy_names_every_field_that_is_not_kept() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text()
    names = {*privacy._STRINGS.items(), *privacy._BYTES.items()}
    missing = sorted(name for name, found in names if found is not Privacy.KEPT and f"`{name}`" not in page)
    assert not missing, f"docs/privacy.md does not name {', '.join(missing)}"
