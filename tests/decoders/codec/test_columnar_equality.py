"""The columnar reader equals the scalar reader on every frame, those with failures included."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from decoders.codec.columnar.reader import ColumnarReader
from decoders.codec.request import write_request
from decoders.codec.response import read_response, write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import Api, Schemas
from decoders.schema.table import COMMITTED_TABLE, read_table
from tests.decoders.codec.columnar_comparison import frames_of, heads_of, hold_against_the_scalar_reader
from tests.decoders.codec.samples import (
    API_VERSIONS,
    APIS,
    KEYS,
    SCHEMAS,
    VERSIONS,
    Sample,
    damaged,
    requests,
    responses,
)
from tests.examples import examples

few_examples = examples(5, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in APIS])
@few_examples
@given(data=st.data())
def test_frames_of_every_api_read_the_same_whole_and_damaged(api: Api, data: st.DataObject) -> None:
    version = data.draw(st.integers(api.versions.lowest, api.versions.highest))
    samples = []
    for made in (requests(api, version), responses(api, version)):
        samples += [data.draw(made), data.draw(damaged(made))]
    hold_against_the_scalar_reader(samples)


def test_every_version_reads_the_same_however_much_of_it_is_there() -> None:
    samples = []
    for api, version in API_VERSIONS:
        request = write_request(SCHEMAS, api.key, version, 7, "cid", {})
        response = write_response(SCHEMAS, api.key, version, 7, {})
        for is_cut in (True, False):
            samples += [Sample(request[:end], is_cut) for end in range(0, len(request) + 1, 3)]
            paired = (api.key, version)
            samples += [Sample(response[:end], is_cut, paired) for end in range(0, len(response) + 1, 3)]
        samples.append(Sample(request + b"\0"))
    hold_against_the_scalar_reader(samples)


def test_the_header_of_a_removed_version_reads_the_same_however_much_of_it_is_there() -> None:
    removed = [(api.key, version) for api in APIS for version in range(api.versions.lowest)]
    assert (0, 2) in removed  # Produce, removed in 4.0
    frames = [struct.pack(">hhih3s", *version, 7, 3, b"cid") + b"\0\1\2" for version in removed]
    frames += [struct.pack(">hhih", *version, 7, -1) for version in removed]
    begun = [frame[:end] for frame in frames for end in range(len(frame) + 1)]
    samples = [Sample(each, is_cut) for each in begun for is_cut in (False, True)]
    decoded = hold_against_the_scalar_reader(samples)
    assert heads_of(decoded, "client_id").count(b"cid") > 2 * len(removed)
    assert heads_of(decoded, "known")[-1] is False


@pytest.mark.parametrize("lowest", [0, 1])
def test_a_refusal_reads_the_same_where_the_schemas_lack_version_0(lowest: int) -> None:
    """A draft may remove it, but brokers refuse newer versions in its layout (KIP-511)."""
    table = read_table(COMMITTED_TABLE)
    for message in table["messages"]:
        if message["name"] in ("ApiVersionsRequest", "ApiVersionsResponse"):
            message["validVersions"] = f"{lowest}-5"
    schemas = Schemas.of(table)
    frame = bytes.fromhex("00000007 0023 00000000")
    decoded = ColumnarReader(schemas).read(frames_of([Sample(frame, paired=(18, 4))]))
    assert read_response(schemas, frame, 18, 4).body == {"errorCode": 35, "apiKeys": []}
    (head,) = decoded.heads
    assert (head["known"], head["has_body"], head["body_version"]) == (True, True, 0)


HEADS = st.builds(lambda key, version: struct.pack(">hhi", key, version, 7) + b"\xff\xff\0", KEYS, VERSIONS)
FRAMES = st.binary(max_size=40) | st.builds(bytes.__add__, HEADS, st.binary(max_size=60))
ARBITRARY = st.builds(Sample, FRAMES, st.booleans(), st.none() | st.tuples(KEYS, VERSIONS))
REFUSALS = st.builds(
    lambda rest, is_cut, version: Sample(b"\0\0\0\7\0\x23" + rest, is_cut, (18, version)),
    st.binary(max_size=30) | st.just(bytes(4)) | st.just(bytes.fromhex("00000001 0012 0000 0005")),
    st.booleans(),
    VERSIONS,
)


@examples(100)
@given(samples=st.lists(ARBITRARY | REFUSALS, max_size=40))
def test_arbitrary_bytes_read_the_same(samples: list[Sample]) -> None:
    hold_against_the_scalar_reader(samples)


@examples(100)
@given(
    text=st.binary(max_size=24) | st.text(max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_strings_are_utf8_by_the_same_measure(text: bytes) -> None:
    frame = struct.pack(">hhih", 18, 0, 7, len(text)) + text
    hold_against_the_scalar_reader([Sample(frame)])


CHARACTERS = [chr(code) for code in (0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF)]
NO_CHARACTERS = ["c1bf", "c2", "e09fbf", "eda080", "f08fbfbf", "f4908080", "f5808080", "80"]


def test_the_first_and_last_characters_of_each_length_are_utf8_and_their_neighbours_are_not() -> None:
    texts = [each.encode() for each in CHARACTERS] + [bytes.fromhex(each) for each in NO_CHARACTERS]
    samples = [Sample(struct.pack(">hhih", 18, 0, 7, len(text)) + text) for text in texts]
    remarks = heads_of(hold_against_the_scalar_reader(samples), "remarks")
    assert list(map(bool, remarks)) == [False] * len(CHARACTERS) + [True] * len(NO_CHARACTERS)


@pytest.mark.parametrize("layout", Layout)
def test_an_instance_id_is_zero_only_as_a_whole(layout: Layout) -> None:
    instance_id = bytes(8) + b"instance"
    frame = write_request(SCHEMAS, "Metadata", 14, 7, "c", {}, instance_id, layout)
    decoded = hold_against_the_scalar_reader([Sample(frame)])
    assert heads_of(decoded, "client_instance_id") == [instance_id]
