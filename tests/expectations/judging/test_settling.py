"""Claims settle although they are repeated."""

from __future__ import annotations

from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import IdentityState
from tests.exchange import SECOND, SOFTWARE, Exchange, added_up, advertisement
from tests.expectations.judging.test_identity_judge import NAMES, claims_of_all

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
