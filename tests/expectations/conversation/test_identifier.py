"""Identifiers are read in every form that clients write, and in no other."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expectations.conversation.identifier import identifier_bytes, identifier_text, is_kafkas_form

SIXTEEN_BYTES = st.binary(min_size=16, max_size=16)


@given(SIXTEEN_BYTES)
def test_every_form_of_a_uuid_gives_its_bytes(identifier: bytes) -> None:
    standard, url_safe = base64.b64encode(identifier), base64.urlsafe_b64encode(identifier)
    forms = [
        standard.decode(),
        standard.decode().rstrip("="),
        url_safe.decode(),
        identifier_text(identifier),
        str(uuid.UUID(bytes=identifier)),
        str(uuid.UUID(bytes=identifier)).upper(),
        identifier.hex(),
    ]
    assert {identifier_bytes(form) for form in forms} == {identifier}


@given(SIXTEEN_BYTES)
def test_kafkas_own_form_is_told_from_the_others(identifier: bytes) -> None:
    text = identifier_text(identifier)
    assert is_kafkas_form(text)
    assert not is_kafkas_form(text + "==")
    assert not is_kafkas_form(str(uuid.UUID(bytes=identifier)))


@pytest.mark.parametrize("text", ["", "orders-1", "A" * 21, "A" * 23, "A" * 24, "!" * 22, "0" * 31, "g" * 32])
def test_other_text_is_no_uuid(text: str) -> None:
    assert identifier_bytes(text) is None
