"""A release that has header 3 itself: its schemas say in which layout, and nothing has to be proven."""

from __future__ import annotations

import pytest

from decoders.codec.failure import EncodeError
from decoders.codec.request import ZERO_INSTANCE_ID, read_request, write_request
from decoders.schema import overlay
from decoders.schema.header_versions import Layout
from decoders.schema.registry import COMMITTED_TABLE, Schemas, read_table
from decoders.schema.table import messages_of

INSTANCE_ID = bytes(range(0x51, 0x61))
BODY = {"topics": [{"name": "orders"}]}


def release(layout: Layout) -> Schemas:
    """A release that states what the overlay would, with its header in a layout."""
    table = read_table(COMMITTED_TABLE)
    (header,) = [message for message in table["messages"] if message["name"] == "RequestHeader"]
    amended = overlay.apply(table, messages_of(table))
    others = [message for message in amended["messages"] if message["name"] != "RequestHeader"]
    return Schemas.of({**amended, "messages": [overlay.request_header(header, layout), *others]})


@pytest.fixture(scope="module", params=list(Layout))
def schemas(request: pytest.FixtureRequest) -> Schemas:
    return release(request.param)


def test_the_layout_is_the_one_of_the_release(schemas: Schemas) -> None:
    (layout,) = schemas.request_headers
    frame = write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID)
    request = read_request(schemas, frame)
    assert (request.layout, request.client_instance_id, request.header_version) == (layout, INSTANCE_ID, 3)
    assert write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID, layout) == frame


def test_an_id_of_zero_is_known_in_either_layout(schemas: Schemas) -> None:
    frame = write_request(schemas, "Metadata", 14, 7, "cid", BODY, ZERO_INSTANCE_ID)
    assert read_request(schemas, frame).client_instance_id == ZERO_INSTANCE_ID


def test_a_frame_that_does_not_decode_fails(schemas: Schemas) -> None:
    frame = write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID)
    request = read_request(schemas, frame[:-1])
    assert (request.known, request.failure is None) == (True, False)


def test_no_other_layout_can_be_written(schemas: Schemas) -> None:
    (layout,) = schemas.request_headers
    (other,) = set(Layout) - {layout}
    with pytest.raises(EncodeError, match=f"no {other} layout"):
        write_request(schemas, "Metadata", 14, 7, "cid", BODY, INSTANCE_ID, other)


def test_before_header_3_there_is_no_layout(schemas: Schemas) -> None:
    request = read_request(schemas, write_request(schemas, "Metadata", 13, 7, "cid", BODY))
    assert (request.layout, request.client_instance_id) == (None, None)
