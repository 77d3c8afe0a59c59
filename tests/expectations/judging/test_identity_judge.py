"""Identities are judged by the claims alone, in whatever order and however parted they come."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from decoders.frame.record import Direction
from expectations.identity.claim import Claim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import (
    IdentityState,
)
from expectations.judging.judge import Judge, open_connection
from tests.examples import examples
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.expectations.judging.claims import NAMES, claims_of_all, instance, judged, log_in

SHARED_INSTANCE, SHARED_MEMBER = "kip1313/instance-id-shared", "kip1082/member-id-shared"


MEMBER = "4vGZ0000000000000000Aw"


def refuse(exchange: Exchange) -> None:
    """A request that is not answered before the broker closes."""
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")


def misroute(exchange: Exchange, error_code: int) -> None:
    """A client that means to reach a certain broker."""
    body = SOFTWARE | {"clusterId": "c", "nodeId": 3}
    exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement(error_code))


STEPS: dict[str, Callable[[Exchange], object]] = {
    "orders": lambda on: on.request("ApiVersions", 6, SOFTWARE, client_id="orders", instance_id=ID_A),
    "billing": lambda on: on.request("ApiVersions", 6, SOFTWARE, client_id="billing", instance_id=ID_A),
    "log in": log_in,
    "ask": lambda on: on.negotiate(client_id="app"),
    "use": lambda on: on.respond(on.request("Metadata", 12, client_id="app")),
    "beat A": lambda on: on.beat(MEMBER, version=2, instance_id=ID_A),
    "beat B": lambda on: on.beat(MEMBER, version=2, instance_id=ID_B),
    "refuse": refuse,
    "misrouted": lambda on: misroute(on, 129),
    "routed": lambda on: misroute(on, 0),
    "described": lambda on: on.respond(on.request("Metadata", 12, client_id="app"), {"clusterId": "c"}),
    "join": lambda on: on.beat("m", 0, version=2, instance_id=ID_A),
    "leave": lambda on: on.beat("m", -1, version=2, instance_id=ID_A),
    "lost": lambda on: on.close(),
    "long wait": lambda on: on.wait(70),
    "gap": lambda on: on.gap(),
    "not kafka": lambda on: on.not_kafka(b"GET "),
    "TLS": lambda on: on.not_kafka(b"\x16\x03\x01\x00", responded=True),
    "TLS, dropped": lambda on: on.not_kafka(b"\x16\x03\x01\x00"),
    "wait": lambda on: on.wait(2),
    "close": lambda on: on.close(first=Direction.TO_CLIENT),
    "ask in vain": lambda on: on.request("Heartbeat", 4, client_id="app"),
}
SCRIPTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(sorted(STEPS))), max_size=30)


def claims_told(script: list[tuple[int, str]]) -> list[Claim]:
    """All that the connections of a script tell, in the order of the frames."""
    exchanges: dict[int, Exchange] = {}
    whole = Exchange(connection=b"first" + bytes(11))
    for number, step in script:
        if number not in exchanges:
            exchanges[number] = Exchange(
                records=whole.records,
                connection=bytes([number]) * 16,
                client=f"10.0.0.1:{40_000 + number}",
                at=whole.at,
            )
        exchanges[number].at = whole.at = max(whole.at, exchanges[number].at)
        STEPS[step](exchanges[number])
        whole.at = exchanges[number].at
    return claims_of_all(whole)


def accused(parts: list[list[Claim]]) -> set[tuple[str, str]]:
    """The rules that are broken, each with the connection that breaks it."""
    return {(finding.rule, finding.connection) for finding in judged(parts).findings}


def parted(claims: list[Claim], size: int) -> list[list[Claim]]:
    return [claims[begin : begin + size] for begin in range(0, len(claims), size)]


def of_who_came_first(accusations: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {
        (rule, connection) for rule, connection in accusations if rule in (SHARED_INSTANCE, SHARED_MEMBER)
    }


@examples(120)
@given(SCRIPTS, st.integers(1, 10))
def test_how_claims_are_parted_changes_no_accusation(script: list[tuple[int, str]], size: int) -> None:
    claims = claims_told(script)
    assert accused(parted(claims, size)) == accused([claims])


@examples(120)
@given(SCRIPTS, st.randoms(use_true_random=False), st.integers(1, 10))
@example([(2, "beat A"), (0, "billing"), (1, "beat A"), (0, "ask in vain")], Random(1), 1)
def test_the_order_of_claims_changes_no_accusation_but_of_who_came_first(
    script: list[tuple[int, str]], random: Random, size: int
) -> None:
    """Of a shared identity the first client may be accused, too, until its first connection is known."""
    claims = claims_told(script)
    shuffled = list(claims)
    random.shuffle(shuffled)
    in_order, in_disorder = accused([claims]), accused(parted(shuffled, size))
    assert in_disorder - of_who_came_first(in_disorder) == in_order - of_who_came_first(in_order)
    assert of_who_came_first(in_order) <= of_who_came_first(in_disorder)


@examples(60)
@given(SCRIPTS)
def test_a_claim_that_comes_twice_changes_nothing(script: list[tuple[int, str]]) -> None:
    claims = claims_told(script)
    once, twice = judged([claims]), judged([claims, claims])
    assert once.checks == twice.checks
    assert {f.id for f in once.findings} == {f.id for f in twice.findings}


def test_an_overlap_that_is_only_known_later_is_told_then() -> None:
    """The first connection is heard again after the second began; before that it may have been dead."""
    one, two = instance(1, "orders"), instance(2, "billing")
    judge, state = IdentityJudge(NAMES), IdentityState()
    assert judge.process(state, claims_of_all(one) + claims_of_all(two)).findings == []
    one.wait(5)
    one.request("Metadata", 14, instance_id=ID_A)
    (finding,) = judge.process(state, claims_of_all(one)).findings
    assert (finding.rule, finding.client) == (SHARED_INSTANCE, "10.0.0.1:2")
    assert finding.client_instance_id == "AAECAwQFBgcICQoLDA0ODw"
    assert finding.evidence.source == "exchange"
    assert finding.sequence == 2


def test_steady_traffic_tells_no_claims() -> None:
    """Only what appears, changes or leaves is told."""
    exchange = instance(1)
    before = len(claims_of_all(exchange))
    for _ in range(500):
        exchange.respond(exchange.request("Metadata", 14, instance_id=ID_A))
    judge, told = Judge(NAMES), 0
    (window,) = exchange.windows()
    told = len(judge.judge(open_connection(window.connection), window).claims)
    assert told <= before + 1
