"""Claims settle: some are judged when captured time has passed, and repetition delays none."""

from __future__ import annotations

from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge, IdentityState
from tests.exchange import SECOND, SOFTWARE, Exchange, added_up, advertisement
from tests.expectations.judging.test_identity_judge import NAMES, claims_of_all

GHOST = "kip1082/member-ghost"
ACCEPTED = "kip1242/misrouted-accepted"
START = 1_000 * SECOND


def joined(at: int = START) -> list[Claim]:
    """A member that joins, and whose client closes the connection."""
    exchange = Exchange(connection=b"member".ljust(16), at=at)
    body = {"groupId": "g", "memberId": "m", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
    exchange.close()
    return claims_of_all(exchange)


def heard(at: int) -> list[Claim]:
    """Another client, which shows that time has passed."""
    exchange = Exchange(connection=b"other".ljust(16), at=at)
    exchange.request("Metadata", 12, client_id="other")
    return claims_of_all(exchange)


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


def test_a_ghost_is_shown_when_captured_time_has_passed_and_not_before() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    judge.process(state, joined())
    outcomes = [judge.tick(state) for _ in range(3)]
    judge.process(state, heard(START + 50 * SECOND))
    outcomes += [judge.tick(state) for _ in range(3)]
    assert added_up(outcomes).checks.keys() & {(GHOST, "violates"), (GHOST, "undecided")} == set()
    judge.process(state, heard(START + 61 * SECOND))
    (finding,) = judge.tick(state).findings
    assert finding.rule == GHOST
    assert [found.rule for _ in range(3) for found in judge.tick(state).findings] == []


def test_a_member_that_comes_back_in_time_is_no_ghost() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    judge.process(state, joined())
    judge.tick(state)
    exchange = Exchange(connection=b"again".ljust(16), at=START + 50 * SECOND)
    body = {"groupId": "g", "memberId": "m", "memberEpoch": 1}
    exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
    judge.process(state, claims_of_all(exchange) + heard(START + 300 * SECOND))
    assert [found.rule for _ in range(3) for found in judge.tick(state).findings] == []


def test_claims_of_an_address_settle_although_every_connection_makes_them_again() -> None:
    judge, state, outcomes = IdentityJudge(NAMES), IdentityState(), []
    for number in range(6):
        outcomes += [judge.process(state, routed(number, describes=number == 0)), judge.tick(state)]
    assert added_up(outcomes).checks[ACCEPTED, "conforms"] == 1
    assert (ACCEPTED, "undecided") not in added_up(outcomes).checks
