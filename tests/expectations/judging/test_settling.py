"""Rules that wait judge a claim when it has settled, although it is repeated and the clock runs on."""

from __future__ import annotations

import msgspec
import pytest

from decoders.retention import KEPT_FOR
from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from tests.exchange import SECOND, SOFTWARE, Exchange, added_up, advertisement
from tests.expectations.judging.claims import (
    NAMES,
    claims_of_all,
    closed_upon_what_is_not_listed,
    instance,
    negotiated,
    strangers,
)

NOT_REPEATED, NOT_KAFKA = "kip35/negotiation-not-repeated", "wire/not-kafka"
ACCEPTED = "kip1242/misrouted-accepted"
START = 1_000 * SECOND


def routed(number: int, *, describes: bool = False) -> list[Claim]:
    """A connection on which a broker accepts the IDs of node 3."""
    exchange = Exchange(connection=number.to_bytes(16), at=START + number * SECOND)
    body = SOFTWARE | {"clusterId": "c", "nodeId": 3}
    exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement())
    if describes:
        brokers = [{"nodeId": 3, "host": "broker-3", "port": 9092}]
        metadata = exchange.request("Metadata", 12, client_id="app")
        exchange.respond(metadata, {"clusterId": "c", "brokers": brokers})
    exchange.close()
    return claims_of_all(exchange)


def test_claims_of_an_address_settle_although_every_connection_makes_them_again() -> None:
    judge, state, outcomes = IdentityJudge(NAMES), IdentityState(), []
    for number in range(6):
        outcomes += [judge.process(state, routed(number, describes=number == 0)), judge.tick(state)]
    assert added_up(outcomes).checks[ACCEPTED, "conforms"] == 1
    assert (ACCEPTED, "undecided") not in added_up(outcomes).checks


@pytest.mark.parametrize("days", [0, 1, 2])
def test_what_has_not_settled_is_judged_although_the_clock_runs_days_ahead(days: int) -> None:
    """A query that catches up, or reads old captures, reads days between two ticks."""
    judge, state = IdentityJudge(NAMES), IdentityState()
    early = claims_of_all(negotiated(1, asks=True)) + claims_of_all(negotiated(2, asks=False))
    outcomes = [judge.process(state, early)]
    late = Exchange(connection=b"l" * 16, client="10.0.0.9:1", at=START + days * KEPT_FOR + KEPT_FOR // 2)
    late.negotiate(client_id="late")
    outcomes += [judge.process(state, claims_of_all(late))]
    outcomes += [judge.tick(state) for _ in range(4)]
    assert [found.rule for each in outcomes for found in each.findings] == ["kip35/negotiation-not-repeated"]
    kept = {identity.name for identity in state.groups}
    assert any("late" in name for name in kept)
    assert any("app" in name for name in kept) == (days < 1)


def test_a_rule_that_waits_accuses_only_when_the_claim_has_settled() -> None:
    """What would speak for the client may still be on its way: here a connection before the others."""
    judge, state = IdentityJudge(NAMES), IdentityState()
    claims = claims_of_all(negotiated(2, asks=True)) + claims_of_all(negotiated(3, asks=False))
    assert judge.process(state, claims).findings == []
    assert judge.tick(state).findings == []
    (finding,) = judge.tick(state).findings
    assert finding.rule == NOT_REPEATED
    assert judge.tick(state).findings == []


def test_what_speaks_for_the_client_in_time_prevents_the_accusation() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    judge.process(state, claims_of_all(negotiated(2, asks=True)) + claims_of_all(negotiated(3, asks=False)))
    judge.tick(state)
    judge.process(state, claims_of_all(negotiated(1, asks=False)))
    outcomes = [judge.tick(state) for _ in range(4)]
    assert [finding for outcome in outcomes for finding in outcome.findings] == []
    assert added_up(outcomes).checks[NOT_REPEATED, "ambiguous-process"] == 1


def test_a_health_check_that_never_pauses_is_reported() -> None:
    """Its claims change nothing, so the first one settles although others keep coming."""
    judge, state, findings = IdentityJudge(NAMES), IdentityState(), []
    judge.process(state, strangers(0)[0])
    for number in range(6):
        check = Exchange(connection=number.to_bytes(16), client=f"10.0.1.1:{number}")
        check.at += number * 10 * SECOND
        check.not_kafka(b"GET ")
        findings += judge.process(state, claims_of_all(check)).findings + judge.tick(state).findings
    assert [finding.rule for finding in findings] == [NOT_KAFKA]
    assert findings[0].client == "10.0.1.1:0"


def test_that_a_server_speaks_kafka_is_remembered_while_it_is_silent() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    kafka, first, second = strangers(2)
    judge.process(state, kafka + first)
    assert [len(judge.tick(state).findings) for _ in range(3)] == [0, 1, 0]
    later = 2 * KEPT_FOR
    (other, *_) = claims_of_all(instance(1))
    judge.process(state, [msgspec.structs.replace(other, until=other.until + later)])
    judge.tick(state)
    assert {known.claim.foreign for group in state.groups.values() for known in group.known} == {None}
    judge.process(state, [msgspec.structs.replace(claim, until=claim.until + later) for claim in second])
    assert [len(judge.tick(state).findings) for _ in range(3)] == [0, 1, 0]


def test_a_refusal_is_judged_at_once_by_what_its_connection_was_told_and_else_when_it_has_settled() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    (finding,) = judge.process(state, claims_of_all(closed_upon_what_is_not_listed(1, asks=True))).findings
    assert (finding.rule, finding.client) == ("kip35/version-refused", "10.0.0.1:1")
    assert judge.process(state, claims_of_all(closed_upon_what_is_not_listed(2, asks=False))).findings == []
    assert judge.tick(state).findings == []
    (finding,) = judge.tick(state).findings
    assert (finding.rule, finding.client) == ("kip35/version-refused", "10.0.0.2:1")
