"""Each KIP-1082 rule fires, conforms and stays undecided where it should."""

from __future__ import annotations

from typing import Any

import pytest

from decoders.frame.record import Closing, Record
from expectations.judging.finding import Finding
from tests.exchange import Exchange

EMPTY = "kip1082/member-id-empty"
CHANGED = "kip1082/member-id-changed"


def beat(exchange: Exchange, member_id: str, epoch: int, version: int = 1, **how: Any) -> Record:
    """A consumer group heartbeat."""
    body = {"groupId": "g", "memberId": member_id, "memberEpoch": epoch}
    return exchange.request("ConsumerGroupHeartbeat", version, body, client_id="app", **how)


def respond(exchange: Exchange, request: Record, member_id: str | None, interval: int = 5000) -> None:
    """Add the coordinator's response to a heartbeat."""
    exchange.respond(request, {"memberId": member_id, "memberEpoch": 1, "heartbeatIntervalMs": interval})


def changed(exchange: Exchange) -> Finding:
    """The one finding of a changed member ID."""
    (found,) = (finding for finding in exchange.judge().findings if finding.rule == CHANGED)
    return found


@pytest.mark.parametrize("member_id", ["", " ", "\t\n "])
def test_a_blank_member_id_violates_from_version_1(member_id: str) -> None:
    exchange = Exchange()
    beat(exchange, member_id, 0)
    assert exchange.verdicts(EMPTY) == (0, 1, 0)


@pytest.mark.parametrize("api", ["ShareGroupHeartbeat", "StreamsGroupHeartbeat"])
def test_a_blank_member_id_violates_in_share_and_streams_heartbeats(api: str) -> None:
    exchange = Exchange()
    exchange.request(api, 1, {"groupId": "g", "memberId": "", "memberEpoch": 0}, client_id="app")
    assert exchange.verdicts(EMPTY) == (0, 1, 0)


def test_version_0_may_join_without_an_id() -> None:
    exchange = Exchange()
    beat(exchange, "", 0, version=0)
    assert exchange.verdicts(EMPTY) == (0, 0, 0)


@pytest.mark.parametrize("epoch", [5, -1])
def test_version_0_without_an_id_later_is_an_improvement(epoch: int) -> None:
    exchange = Exchange()
    beat(exchange, "", epoch, version=0)
    assert [finding.level for finding in exchange.judge().findings] == ["improvement"]


def test_a_null_member_id_violates_although_it_cannot_be_decoded() -> None:
    exchange = Exchange()
    frame = bytes.fromhex("0044000100000001 0003617070 00 0267 00 00000000".replace(" ", ""))
    exchange.request("ConsumerGroupHeartbeat", 1, frame=frame)
    assert exchange.verdicts(EMPTY) == (0, 1, 0)
    assert exchange.verdicts("wire/malformed-request") == (0, 1, 0)


def test_a_member_id_conforms_whatever_it_looks_like() -> None:
    exchange = Exchange()
    beat(exchange, "not a uuid", 0)
    assert exchange.verdicts(EMPTY) == (1, 0, 0)


def test_a_heartbeat_that_was_cut_is_undecided() -> None:
    exchange = Exchange()
    beat(exchange, "", 0)
    exchange.cut_last(16)
    assert exchange.verdicts(EMPTY) == (0, 0, 1)


def test_another_id_after_leaving_violates() -> None:
    exchange = Exchange()
    for member_id, epoch in (("A", 0), ("A", -1), ("B", 0)):
        respond(exchange, beat(exchange, member_id, epoch), member_id)
    assert exchange.verdicts(CHANGED) == (1, 1, 0)
    assert changed(exchange).context["when"] == "across leave and rejoin"


def test_the_same_id_across_leave_and_rejoin_conforms() -> None:
    exchange = Exchange()
    for epoch in (0, 1, -1, 0, 1):
        respond(exchange, beat(exchange, "A", epoch), "A")
    assert exchange.verdicts(CHANGED) == (4, 0, 0)


def test_another_id_mid_session_violates_when_the_first_stays_silent() -> None:
    exchange = Exchange()
    respond(exchange, beat(exchange, "A", 0), "A")
    respond(exchange, beat(exchange, "B", 0), "B")
    assert exchange.verdicts(CHANGED) == (0, 0, 0)
    exchange.wait(10)
    beat(exchange, "B", 1)
    assert exchange.verdicts(CHANGED) == (1, 1, 0)
    finding = changed(exchange)
    assert finding.context["when"] == "mid-session" and finding.member_id == "B"


def test_another_id_on_a_retry_violates_when_the_connection_closes() -> None:
    exchange = Exchange()
    beat(exchange, "A", 0)
    beat(exchange, "B", 0)
    exchange.close()
    assert changed(exchange).context["when"] == "on a retry"


def test_a_connection_that_is_given_up_leaves_a_change_undecided() -> None:
    exchange = Exchange()
    beat(exchange, "A", 0)
    beat(exchange, "B", 0)
    exchange.close(Closing.EVICTED)
    assert exchange.verdicts(CHANGED) == (0, 0, 1)


def test_two_members_on_one_connection_are_undecided() -> None:
    exchange = Exchange()
    for member_id in "ABABAB":
        respond(exchange, beat(exchange, member_id, 0), member_id)
    exchange.close()
    _, violates, undecided = exchange.verdicts(CHANGED)
    assert violates == 0 and undecided > 0


def test_adopting_the_id_of_the_brokers_response_conforms() -> None:
    exchange = Exchange()
    respond(exchange, beat(exchange, "A", 0), "B")
    beat(exchange, "B", 1)
    assert exchange.verdicts(CHANGED) == (1, 0, 0)


def test_a_gap_may_have_hidden_a_leave() -> None:
    exchange = Exchange()
    beat(exchange, "A", 0)
    beat(exchange, "B", 0)
    exchange.gap()
    exchange.wait(60)
    beat(exchange, "B", 1)
    assert exchange.verdicts(CHANGED) == (0, 0, 1)
