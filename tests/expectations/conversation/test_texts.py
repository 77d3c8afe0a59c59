"""Text from peers is kept within bounds, and what rules read of it stays."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expectations.conversation.bodies import Heartbeat
from expectations.conversation.texts import (
    BLANKS,
    LONGEST_TEXT,
    bounded,
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
