"""Names and IDs from peers are kept within bounds, and UUIDs are read in every form that clients write."""

from __future__ import annotations

import base64
import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expectations.conversation.bodies import Heartbeat
from expectations.conversation.texts import (
    BLANKS,
    LONGEST_TEXT,
    bounded,
    identifier_bytes,
    identifier_text,
    is_kafkas_form,
    is_shortened,
)
from expectations.judging.finding import LONGEST_LINE
from expectations.rules.base.rule import Spec
from expectations.rules.kip_511._software_pattern import is_well_formed
from tests.exchange import Exchange
from tests.expectations.conversation.columnar.test_windows import at_once, contents, of_records, unheard

LONGEST_STRING = 32_766
"""Bytes of the longest string that Kafka's older string type can carry."""
MARGIN = 64
LONG_TEXTS = st.text(st.characters(codec="utf-8"), min_size=200, max_size=300) | st.builds(
    lambda first, middle, last, count: first + middle * count + last,
    st.sampled_from(["a", "-", "é", " "]),
    st.sampled_from(["b", ".", " ", "\x01"]),
    st.sampled_from(["c", "-", "\n"]),
    st.integers(250, 260),
)


@given(LONG_TEXTS)
def test_a_bounded_text_keeps_what_rules_read(text: str) -> None:
    kept = bounded(text)
    assert len(kept) <= LONGEST_TEXT + MARGIN
    assert is_shortened(kept) == (len(text) > LONGEST_TEXT and text.strip(BLANKS) != "")
    assert bounded(kept[:LONGEST_TEXT]) == kept[:LONGEST_TEXT]
    for spec in (Spec.SHIPPED, Spec.TEXT):
        assert is_well_formed(kept, spec) == is_well_formed(text, spec)
    assert Heartbeat(kept).has_member_id == Heartbeat(text).has_member_id


@given(LONG_TEXTS, LONG_TEXTS)
def test_different_texts_stay_different(one: str, other: str) -> None:
    if one != other and one.strip(BLANKS) and other.strip(BLANKS):
        assert bounded(one) != bounded(other)


@given(st.lists(LONG_TEXTS, min_size=3, max_size=3), st.sampled_from(["Consumer", "Share"]))
def test_columns_hold_the_same_text(texts: list[str], group: str) -> None:
    client_id, group_id, member_id = texts
    exchange = Exchange()
    body = {"groupId": group_id, "memberId": member_id, "memberEpoch": 1}
    beat = exchange.request(f"{group}GroupHeartbeat", 1, body, client_id=client_id)
    exchange.respond(beat, {"memberId": member_id})
    exchange.request("Metadata", 12, client_id=client_id)
    records = unheard(exchange.records)
    assert contents(at_once(records)) == contents(of_records(records))


@pytest.mark.parametrize("character", ["\x01", "a"])
def test_the_findings_of_a_client_with_endless_names_are_small(character: str) -> None:
    """Findings were 1.3 MB, which no topic takes, so that the query ended."""
    endless = character * LONGEST_STRING
    exchange = Exchange()
    software = {"clientSoftwareName": endless, "clientSoftwareVersion": endless}
    ask = exchange.request("ApiVersions", 4, software, client_id=endless)
    exchange.respond(ask, {"apiKeys": [{"apiKey": 18, "minVersion": 1, "maxVersion": 4}] * 2_000})
    heartbeat = {"groupId": endless, "memberId": endless, "memberEpoch": 0}
    exchange.request("ShareGroupHeartbeat", 1, heartbeat, client_id=endless)
    exchange.close()
    findings = exchange.judge().findings
    assert {"kip1082/member-id-too-long", "kip35/range-inverted"} <= {finding.rule for finding in findings}
    for finding in findings:
        assert len(msgspec.json.encode(finding)) < 12 * LONGEST_LINE


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
