"""The committed table equals the schemas of the kafka-clients jar, and a bad schema is refused by name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from decoders.schema.model import SchemaError
from decoders.schema.registry import Schemas
from decoders.schema.table import COMMITTED_TABLE, dump_table, read_jar, read_table

HEADERS: list[dict[str, Any]] = [
    {
        "type": "header",
        "name": "RequestHeader",
        "validVersions": "1-2",
        "flexibleVersions": "2+",
        "fields": [{"name": "CorrelationId", "type": "int32", "versions": "0+", "about": "Prose."}],
    },
    {
        "type": "header",
        "name": "ResponseHeader",
        "validVersions": "0-1",
        "flexibleVersions": "1+",
        "fields": [{"name": "CorrelationId", "type": "int32", "versions": "0+"}],
    },
]


def pair(**changes: Any) -> list[dict[str, Any]]:
    """Make a request with the given changes, and its response."""
    common: dict[str, Any] = {"apiKey": 3, "validVersions": "0-1", "flexibleVersions": "1+", "fields": []}
    request = {**common, "type": "request", "name": "MetadataRequest", **changes}
    return [request, {**common, "type": "response", "name": "MetadataResponse"}]


def jar_of(folder: Path, messages: list[dict[str, Any]], release: str = "version=9.9.9\n") -> Path:
    path = folder / "kafka-clients.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("kafka/kafka-version.properties", "commitId=abc\n" + release)
        for message in messages:
            text = "// A licence.\n" + json.dumps(message, indent=1).replace("{\n", "{\n  // About.\n", 1)
            jar.writestr(f"common/message/{message['name']}.json", text)
    return path


def test_the_committed_table_has_not_drifted_from_its_jar(kafka_clients_jar: Path) -> None:
    pinned, committed = read_jar(kafka_clients_jar), read_table(COMMITTED_TABLE)
    assert committed["release"] == pinned["release"], (
        f"the table is of {committed['release']}, the pinned jar of {pinned['release']}: "
        'step 3 of "Add a Kafka release" in docs/contributing.md'
    )
    assert dump_table(pinned) == COMMITTED_TABLE.read_text()


def test_a_table_keeps_facts_and_no_prose(tmp_path: Path) -> None:
    table = read_jar(jar_of(tmp_path, [*HEADERS, *pair()]))
    assert table["release"] == "9.9.9"
    text = dump_table(table)
    assert "Prose" not in text
    assert json.loads(text) == table
    assert sum(line.startswith('{"type"') for line in text.splitlines()) == len(table["messages"]) == 4


def test_the_same_schemas_make_the_same_table_in_any_order(tmp_path: Path) -> None:
    messages = [*HEADERS, *pair()]
    there = dump_table(read_jar(jar_of(tmp_path, messages)))
    back = dump_table(read_jar(jar_of(tmp_path, messages[::-1])))
    assert there == back


def test_a_jar_of_another_release_can_be_loaded(tmp_path: Path) -> None:
    schemas = Schemas.of(read_table(jar_of(tmp_path, [*HEADERS, *pair()])))
    assert (schemas.release, schemas.overlay) == ("9.9.9", "KIP-1313")
    assert [(api.name, str(api.versions), str(api.release_versions)) for api in schemas.apis] == [
        ("Metadata", "0-2", "0-1")
    ]


def test_a_release_that_states_header_versions_needs_no_overlay(tmp_path: Path) -> None:
    schemas = Schemas.of(
        read_table(jar_of(tmp_path, [*HEADERS, *pair(headerVersions={"0": "1", "1+": "3"})]))
    )
    api = schemas.api(3)
    assert api is not None
    assert (schemas.overlay, api.versions, api.is_overlay(1)) == (None, api.release_versions, False)
    assert [api.request_header_version(version) for version in (0, 1, 99)] == [1, 3, 3]


TOPICS: dict[str, Any] = {"name": "Topics", "type": "string", "versions": "0+"}
LEAF: dict[str, Any] = {"name": "Leaf", "versions": "0+", "fields": []}


def field(**changes: Any) -> list[dict[str, Any]]:
    return pair(fields=[{**TOPICS, **changes}])


def tagged(**changes: Any) -> list[dict[str, Any]]:
    return field(**{"versions": "1+", "taggedVersions": "1+", "tag": 0, **changes})


def without(name: str) -> list[dict[str, Any]]:
    request, response = pair()
    return [{key: value for key, value in request.items() if key != name}, response]


def without_versions() -> list[dict[str, Any]]:
    return pair(fields=[{"name": "Topics", "type": "string"}])


NODE = {"name": "Node", "versions": "0+", "fields": [{"name": "Next", "type": "[]Node", "versions": "0+"}]}
REFUSED = [
    pytest.param(pair(validVersions="x"), "", "'x' is not a version", id="versions"),
    pytest.param(pair(validVersions="3-1"), "", "runs backwards", id="versions backwards"),
    pytest.param(pair(flexibleVersions="1-2"), "", "must be none or open", id="flexible versions"),
    pytest.param(pair(apiKey="3"), "", "apiKey '3' is not a number", id="api key"),
    pytest.param(pair(type="gossip"), "", "type 'gossip' is not one of", id="kind"),
    pytest.param(pair(validVersions="0+"), "", "validVersions 0+ is open", id="valid versions open"),
    pytest.param(without("flexibleVersions"), "", "flexibleVersions is missing", id="no flexible versions"),
    pytest.param(without("validVersions"), "", "validVersions is missing", id="no valid versions"),
    pytest.param(pair(fields={}), "", "fields is not a list", id="fields"),
    pytest.param(pair(fields=["x"]), "", "an entry of fields is not a map", id="field entry"),
    pytest.param(pair(listeners=[1]), "", "an entry of listeners is not a text", id="listener"),
    pytest.param(pair(latestVersionUnstable="yes"), "", "'yes', not true or false", id="truth"),
    pytest.param(pair(surprise=1), "", "property 'surprise' is not known", id="message property"),
    pytest.param(
        pair(fields=[TOPICS, {**TOPICS, "name": "topics"}]), "", "two fields have the same name", id="twice"
    ),
    pytest.param(field(surprise=1), "Topics", "property 'surprise' is not known", id="field property"),
    pytest.param(field(type="int128"), "Topics", "type 'int128' is not known", id="type"),
    pytest.param(field(type="[]Topic"), "Topics", "struct Topic is defined nowhere", id="struct"),
    pytest.param(field(type="[][]int32"), "Topics", "type '[][]int32' is not known", id="array of arrays"),
    pytest.param(field(fields=[TOPICS]), "Topics", "has no fields of its own", id="fields of a text"),
    pytest.param(field(versions="none+"), "Topics", "versions: 'none' is not a version", id="field versions"),
    pytest.param(without_versions(), "Topics", "versions is missing", id="no field versions"),
    pytest.param(field(name="a b"), "", "'a b' is not a name", id="name"),
    pytest.param(field(type="int8", default="300"), "Topics", "'300' is not a int8", id="default"),
    pytest.param(field(default="null"), "Topics", "not every version allows null", id="null default"),
    pytest.param(field(type="bool", default="2"), "Topics", "'2' is not a bool", id="default of a bool"),
    pytest.param(field(type="int32", default="x"), "Topics", "'x' is not a int32", id="default of a number"),
    pytest.param(field(type="uuid", default="x"), "Topics", "'x' is not a uuid", id="default of a uuid"),
    pytest.param(field(type="bytes", default="x"), "Topics", "has none but null", id="default of bytes"),
    pytest.param(field(type="[]int8", default="0"), "Topics", "has none but null", id="default of an array"),
    pytest.param(
        field(default="null", nullableVersions="1+"),
        "Topics",
        "not every version allows",
        id="null too early",
    ),
    pytest.param(field(zeroCopy=True), "Topics", "only bytes fields may be zeroCopy", id="zero copy"),
    pytest.param(field(type="int8", nullableVersions="0+"), "Topics", "cannot be null", id="nullable"),
    pytest.param(field(tag=0), "Topics", "belong together", id="tag alone"),
    pytest.param(field(taggedVersions="1+"), "Topics", "belong together", id="tagged without a tag"),
    pytest.param(tagged(tag="x"), "Topics", "tag 'x' is not a number", id="tag is no number"),
    pytest.param(tagged(taggedVersions="1"), "Topics", "taggedVersions 1 must be open", id="tagged until"),
    pytest.param(tagged(versions="2+"), "Topics", "not all versions of the field", id="tagged too early"),
    pytest.param(tagged(versions="0-1"), "Topics", "not all versions of the field", id="tagged too long"),
    pytest.param(tagged(nullableVersions="2+"), "Topics", "some of the tagged ones", id="tagged partly null"),
    pytest.param(tagged(mapKey=True), "Topics", "cannot be a mapKey", id="tagged key"),
    pytest.param(field(tag=0, taggedVersions="0+"), "Topics", "not all flexible", id="tag before flexible"),
    pytest.param(field(versions="1+", tag=1, taggedVersions="1+"), "", "are not 0, 1, 2", id="tag 0 missing"),
    pytest.param(
        field(type="int8", flexibleVersions="none"), "Topics", "only string and bytes", id="override"
    ),
    pytest.param(pair(commonStructs=[LEAF, LEAF]), "Leaf", "two common structs", id="common struct twice"),
    pytest.param(
        pair(fields=[{**TOPICS, "type": "Leaf", "fields": [TOPICS]}], commonStructs=[LEAF]),
        "Topics",
        "and defined here too",
        id="common struct defined again",
    ),
    pytest.param(
        pair(commonStructs=[{**LEAF, "fields": [{**TOPICS, "type": "int128"}]}]),
        "<Leaf>.Topics",
        "type 'int128' is not known",
        id="common struct that nobody uses",
    ),
    pytest.param(
        pair(fields=[{"name": "Node", "type": "Node", "versions": "0+"}], commonStructs=[NODE]),
        "<Node>.Next",
        "struct Node contains itself",
        id="struct in itself",
    ),
]


@pytest.mark.parametrize(("messages", "where", "reason"), REFUSED)
def test_a_bad_schema_names_file_field_and_reason(
    tmp_path: Path, messages: list[dict[str, Any]], where: str, reason: str
) -> None:
    with pytest.raises(SchemaError) as refused:
        read_jar(jar_of(tmp_path, [*HEADERS, *messages]))
    assert (refused.value.file, refused.value.field) == ("common/message/MetadataRequest.json", where)
    assert reason in refused.value.reason
    assert "\n" not in str(refused.value)


def test_what_is_not_json_is_refused(tmp_path: Path) -> None:
    path = jar_of(tmp_path, HEADERS)
    with zipfile.ZipFile(path, "a") as jar:
        jar.writestr("common/message/Broken.json", '{"type": ')
    with pytest.raises(SchemaError, match=r"common/message/Broken\.json: not JSON"):
        read_jar(path)


def test_what_is_not_a_kafka_clients_jar_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SchemaError, match="neither a jar nor a table"):
        Schemas.of(read_table(tmp_path / "text"))
    with pytest.raises(SchemaError, match=r"missing\.jar: cannot be read: No such file"):
        Schemas.of(read_table(tmp_path / "missing.jar"))
    with pytest.raises(SchemaError, match="is it a kafka-clients jar"):
        read_jar(jar_of(tmp_path, []))
    with pytest.raises(SchemaError, match="does not state the release"):
        read_jar(jar_of(tmp_path, HEADERS, release=""))


def test_a_property_may_be_stated_twice_but_not_with_two_values(tmp_path: Path) -> None:
    """Kafka 3.9 states one twice."""
    headers = [json.dumps(header) for header in HEADERS]
    for name, again in (("same", '"int32"'), ("other", '"int64"')):
        text = headers[0].replace('"type": "int32"', f'"type": {again}, "type": "int32"')
        path = jar_of(tmp_path, HEADERS[1:])
        with zipfile.ZipFile(path, "a") as jar:
            jar.writestr("common/message/RequestHeader.json", text)
        if name == "same":
            assert len(read_jar(path)["messages"]) == 2
        else:
            with pytest.raises(SchemaError, match=r"RequestHeader\.json: .*'type' is there twice"):
                read_jar(path)


def test_messages_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    table = read_jar(jar_of(tmp_path, [*HEADERS, *pair()]))
    request, response = ({**message} for message in table["messages"][:2])
    twin, answer = {**request, "name": "TwinRequest"}, {**response, "name": "TwinResponse"}
    for messages, reason in (
        ([*HEADERS, request, response, request], r"MetadataRequest\.json: two messages have this name"),
        ([*HEADERS, request, response, twin, answer], r"TwinRequest\.json: another request has apiKey 3"),
        ([*HEADERS, request, {**response, "apiKey": 4}], "no response has its name and apiKey"),
        ([*HEADERS, request, {**response, "validVersions": "0-2"}], "its response has versions 0-2"),
        (HEADERS[:1], r"ResponseHeader\.json: the table lacks it"),
    ):
        with pytest.raises(SchemaError, match=reason):
            Schemas.of({**table, "messages": messages})


@pytest.mark.parametrize("text", ["[]", '{"release": "1"}', '{"release": "", "digest": "", "messages": [1]}'])
def test_what_is_json_but_no_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(SchemaError, match=r"table\.json: not a table of schemas"):
        Schemas.of(read_table(tmp_path / "table.json"))


def test_a_request_without_its_response_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"MetadataRequest\.json: no response"):
        Schemas.of(read_table(jar_of(tmp_path, [*HEADERS, pair()[0]])))
