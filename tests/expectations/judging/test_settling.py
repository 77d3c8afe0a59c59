"""Claims settle although they are repeated, and although the clock runs on."""

from __future__ import annotations

import pytest

from decoders.retention import KEPT_FOR
from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from tests.exchange import SECOND, SOFTWARE, Exchange, added_up, advertisement
from tests.expectations.judging.test_identity_judge import NAMES, claims_of_all, negotiated

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
