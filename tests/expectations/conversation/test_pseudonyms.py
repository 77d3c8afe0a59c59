"""Pseudonyms hide identities and keep what rules read of them."""

from __future__ import annotations

import base64
from typing import get_args, get_type_hints
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decoders.wire.segment import SocketAddress
from expectations.conversation.bodies import Body
from expectations.conversation.observation import Failure, Statement
from expectations.conversation.pseudonyms import IDENTITIES, SHORTEST_KEY, Pseudonyms
from expectations.conversation.texts import (
    RESERVED_UUIDS,
    bounded,
    identifier_bytes,
    identifier_text,
    is_blank,
    is_kafkas_form,
    is_shortened,
    utf16_units,
)

PSEUDONYMS = Pseudonyms(b"k" * SHORTEST_KEY)
LONGEST_MEMBER_ID = 36
IDENTIFIES_NOBODY = {
    ("SoftwareClaim", "name"),
    ("SoftwareClaim", "version"),
    ("SoftwareClaim", "cluster_id"),
    ("ClusterDescription", "cluster_id"),
    ("Statement", "layout"),
    ("Placement", "name"),
}
"""Texts that stay as they are: names of programs, and what names the user's own clusters.

A placement does not stay: its statement has none then.
"""
uuids = st.binary(min_size=16, max_size=16).filter(lambda each: each not in RESERVED_UUIDS)
texts = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(min_codepoint=0x1F300, max_codepoint=0x1F320), min_size=17, max_size=22),
    st.text(max_size=700).map(bounded),
    uuids.map(identifier_text),
    uuids.map(lambda each: str(UUID(bytes=each))),
    uuids.map(lambda each: UUID(bytes=each).hex.upper()),
    uuids.map(lambda each: base64.b64encode(each).decode()),
    uuids.map(lambda each: base64.b64encode(each).decode().rstrip("=")),
)


def what_rules_read(text: str) -> tuple[object, ...]:
    """All that a rule may read of an ID beside whether it equals another one."""
    identifier = identifier_bytes(text)
    return (
        is_blank(text),
        is_shortened(text),
        utf16_units(text) > LONGEST_MEMBER_ID,
        identifier is not None,
        is_kafkas_form(text),
        identifier in RESERVED_UUIDS,
        identifier and (identifier[6] >> 4, identifier[8] >> 6),
    )


@given(texts)
@example("orders-service-consumer-1")
@example("AAAAAAAAAAAAAAAAAAAAAQ")
@example("x" * 22)
def test_rules_read_the_same_of_a_pseudonym(text: str) -> None:
    assert what_rules_read(PSEUDONYMS.text(text)) == what_rules_read(text)


@given(texts, texts)
def test_ids_that_differ_have_pseudonyms_that_differ(one: str, other: str) -> None:
    """Two unusual ways to write one UUID, such as hex in mixed case, may become one."""
    if (identifier_bytes(one) or one) != (identifier_bytes(other) or other):
        assert PSEUDONYMS.text(one) != PSEUDONYMS.text(other)


@given(texts)
def test_a_uuid_is_the_same_in_all_its_forms(text: str) -> None:
    identifier = identifier_bytes(text)
    if identifier is not None:
        assert identifier_bytes(PSEUDONYMS.text(text)) == PSEUDONYMS.identifier(identifier)


@given(texts)
def test_nothing_of_an_id_is_left(text: str) -> None:
    identifies = not is_blank(text) and identifier_bytes(text) not in RESERVED_UUIDS
    if identifies and len(text) > 4:
        assert text[:5] not in PSEUDONYMS.text(text)


def test_another_key_gives_other_pseudonyms() -> None:
    other = Pseudonyms(b"l" * SHORTEST_KEY)
    assert PSEUDONYMS.text("orders") != other.text("orders")
    assert PSEUDONYMS.host("10.0.0.1") != other.host("10.0.0.1")
    with pytest.raises(ValueError, match="16 bytes"):
        Pseudonyms(b"short")


def test_of_an_address_the_port_stays() -> None:
    for host in ("10.0.0.1", "[2001:db8::1]"):
        assert PSEUDONYMS.address(f"{host}:40000") == f"{PSEUDONYMS.host(host)}:40000"
        assert host not in PSEUDONYMS.host(host)


@given(
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)), st.integers(0, 65535)
)
def test_an_address_that_a_feeder_has_replaced_has_the_name_of_the_plain_one(
    address: bytes, port: int
) -> None:
    client = SocketAddress(address, port)
    replaced = PSEUDONYMS.client(client)
    assert address not in replaced.address
    assert PSEUDONYMS.address(replaced.endpoint) == PSEUDONYMS.address(client.endpoint)
    assert PSEUDONYMS.client(client) == replaced != Pseudonyms(b"l" * SHORTEST_KEY).client(client)


def test_every_text_of_a_statement_is_known_to_identify_somebody_or_nobody() -> None:
    """A new field fails here until it is in IDENTITIES or in the list above."""
    kinds: list[type[msgspec.Struct]] = [Statement, *get_args(Body)]
    found = {
        (kind.__name__, name)
        for kind in kinds
        for name, hint in get_type_hints(kind).items()
        if {str, bytes} & {hint, *get_args(hint)} or "Layout" in str(hint)
    }
    named = {(kind.__name__, name) for kind, names in IDENTITIES.items() for name in names}
    assert found == named | IDENTIFIES_NOBODY
    # A failure names a field of the schema and a reason of the codec's.
    assert {"reason", "path", "offset"} == set(Failure.__struct_fields__)
