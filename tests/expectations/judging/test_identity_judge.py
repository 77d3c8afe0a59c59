"""Identities are judged by the claims alone, in whatever order and however parted they come."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Direction
from decoders.retention import KEPT_FOR
from decoders.schema.registry import default_schemas
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.server_claim import MOST_VERSIONS
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import (
    ADVERTISEMENTS_LIMIT,
    ALIKE_LIMIT,
    CLAIM_LIMITS,
    GROUP_LIMIT,
    IdentityState,
)
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from expectations.rules.base.rule import METHODS, IdentityRule
from tests.examples import examples
from tests.exchange import ID_A, ID_B, SECOND, SOFTWARE, Exchange, added_up, advertisement, claims_of

NAMES = default_schemas().api_names
SHARED_INSTANCE = "kip1313/instance-id-shared"
NOT_REPEATED = "kip35/negotiation-not-repeated"
NOT_KAFKA = "wire/not-kafka"
APIS_OF_OLD_BROKER = {"apiKey": 18, "minVersion": 0, "maxVersion": 2}
MEMBER = "4vGZ0000000000000000Aw"


def beat(exchange: Exchange, instance_id: bytes) -> None:
    """A heartbeat of the one member."""
    body = {"groupId": "g", "memberId": MEMBER, "memberEpoch": 1}
    exchange.request("ConsumerGroupHeartbeat", 2, body, client_id="app", instance_id=instance_id)


def join(exchange: Exchange, epoch: int) -> None:
    """A heartbeat of a member whose ID is no UUID."""
    body = {"groupId": "g", "memberId": "m", "memberEpoch": epoch}
    exchange.request("ConsumerGroupHeartbeat", 2, body, client_id="app", instance_id=ID_A)


def refuse(exchange: Exchange) -> None:
    """A request that is not answered before the broker closes."""
    exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")


def log_in(exchange: Exchange) -> None:
    """A login that the broker accepts."""
    exchange.respond(exchange.request("SaslHandshake", 1, {"mechanism": "PLAIN"}))
    exchange.respond(exchange.request("SaslAuthenticate", 2))


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
    "beat A": lambda on: beat(on, ID_A),
    "beat B": lambda on: beat(on, ID_B),
    "refuse": refuse,
    "misrouted": lambda on: misroute(on, 129),
    "routed": lambda on: misroute(on, 0),
    "described": lambda on: on.respond(on.request("Metadata", 12, client_id="app"), {"clusterId": "c"}),
    "join": lambda on: join(on, 0),
    "leave": lambda on: join(on, -1),
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


def claims_of_all(exchange: Exchange) -> list[Claim]:
    judge, states, claims = Judge(NAMES), dict[bytes, ConnectionState](), []
    for window in exchange.windows(1):
        state = states.setdefault(window.connection.id, open_connection(window.connection))
        claims += claims_of(judge.judge(state, window), window)
    return claims + [claim for state in states.values() for claim in judge.latest_claims(state)]


def judged(parts: list[list[Claim]]) -> Outcome:
    """Judge claims part by part, the state stored in between."""
    judge, state, outcomes = IdentityJudge(NAMES), IdentityState(), []
    for part in parts:
        outcomes.append(judge.process(state, part))
        state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=IdentityState)
    return added_up([*outcomes, judge.finish(state)])


@examples(120)
@given(SCRIPTS, st.randoms(use_true_random=False), st.integers(1, 10))
def test_neither_the_order_of_claims_nor_how_they_are_parted_changes_a_verdict(
    script: list[tuple[int, str]], random: st.DataObject, size: int
) -> None:
    claims = claims_told(script)
    shuffled = list(claims)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives random.Random
    whole = judged([claims])
    parted = judged([shuffled[start : start + size] for start in range(0, len(shuffled), size)])
    assert {f.id: (f.rule, f.connection) for f in parted.findings} == {
        f.id: (f.rule, f.connection) for f in whole.findings
    }


@examples(60)
@given(SCRIPTS)
def test_a_claim_that_comes_twice_changes_nothing(script: list[tuple[int, str]]) -> None:
    claims = claims_told(script)
    once, twice = judged([claims]), judged([claims, claims])
    assert once.checks == twice.checks
    assert {f.id for f in once.findings} == {f.id for f in twice.findings}


def instance(number: int, software: str = "x") -> Exchange:
    exchange = Exchange(connection=number.to_bytes(16), client=f"10.0.0.1:{number}")
    body = SOFTWARE | {"clientSoftwareName": software}
    exchange.request("ApiVersions", 6, body, client_id="app", instance_id=ID_A)
    return exchange


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


def negotiated(number: int, asks: bool) -> Exchange:
    exchange = Exchange(
        connection=number.to_bytes(16), client=f"10.0.0.1:{number}", at=number * 1_000 * SECOND
    )
    if asks:
        exchange.negotiate(client_id="app")
    exchange.request("Metadata", 12, client_id="app")
    exchange.close()
    return exchange


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


def test_what_was_forgotten_to_make_room_is_undecided_and_leaves_no_accusation() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    limit = CLAIM_LIMITS[IdentityKind.CLIENT]
    outcomes = [judge.process(state, claims_of_all(negotiated(1, asks=True)))]
    for number in range(2, limit + 3):
        outcomes.append(judge.process(state, claims_of_all(negotiated(number, asks=number < limit))))
    total = added_up([*outcomes, judge.finish(state)])
    assert max(len(group.known) for group in state.groups.values()) <= max(CLAIM_LIMITS.values())
    assert total.findings == []
    assert total.checks[NOT_REPEATED, "forgotten"] > 0


def test_a_forgotten_claim_counts_only_for_rules_that_it_concerns() -> None:
    """Lists of ranges make room for later ones, uncounted; a refusal that is forgotten is undecided."""
    judge, state = IdentityJudge(NAMES), IdentityState()
    claims = claims_of_all(closed_upon_what_is_not_listed(1, asks=True))
    (listed,) = [claim for claim in claims if claim.ranges is not None]
    (refused,) = [claim for claim in claims if claim.refused is not None]
    assert refused.refused is not None
    lists = [msgspec.structs.replace(listed, first_sequence=number) for number in range(40)]
    assert judge.process(state, lists).checks == {}
    assert len(state.groups[next(iter(state.groups))].known) == ADVERTISEMENTS_LIMIT

    of_others = msgspec.structs.replace(refused.refused, advertised=None)
    judge.process(state, [msgspec.structs.replace(refused, refused=of_others)])
    elsewhere = (msgspec.structs.replace(listed.identity, name=str(each)) for each in range(GROUP_LIMIT))
    pushed = [msgspec.structs.replace(listed, identity=identity) for identity in elsewhere]
    assert judge.process(state, pushed).checks == {
        ("kip35/version-refused", "forgotten"): 1,
        ("kip35/refused-version-repeated", "forgotten"): 1,
        ("kip35/request-before-sasl", "forgotten"): 1,
    }


def test_identities_are_bounded() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    (claim, *_) = claims_of_all(instance(1))
    for number in range(GROUP_LIMIT + 5):
        identity = msgspec.structs.replace(claim.identity, name=str(number))
        judge.process(state, [msgspec.structs.replace(claim, identity=identity)])
    assert len(state.groups) == GROUP_LIMIT
    assert "0" not in {identity.name for identity in state.groups}


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


ALONE = [rule for rule in IdentityJudge(NAMES)._rules if not rule.kinds]


@pytest.mark.parametrize("rule", ALONE, ids=lambda rule: rule.id)
def test_a_connection_alone_is_never_judged_by_such_a_rule(rule: IdentityRule) -> None:
    exchange = Exchange()
    for name in METHODS.values():
        assert list(getattr(rule, name)(exchange, exchange, None)) == []


def strangers(count: int) -> list[list[Claim]]:
    """The claims of addresses that send HTTP to a port to which others speak Kafka, one part an address."""
    kafka = Exchange()
    kafka.respond(kafka.request("Metadata", 12, client_id="app"))
    parts = [claims_of_all(kafka)]
    for number in range(count):
        client = f"10.0.{number // 250 + 1}.{number % 250}:1"
        stranger = Exchange(connection=number.to_bytes(16), client=client)
        stranger.at += number * SECOND
        stranger.not_kafka(b"GET ")
        stranger.close()
        parts.append(claims_of_all(stranger))
    return parts


def test_a_scanner_with_many_addresses_makes_few_findings_and_displaces_none() -> None:
    few, many = judged(strangers(10)), judged(strangers(200))
    assert len(few.findings) == 10
    assert len(many.findings) == CLAIM_LIMITS[IdentityKind.LISTENER] - 1
    assert {finding.id for finding in few.findings} <= {finding.id for finding in many.findings}


def test_a_scanner_that_only_asks_makes_few_findings_and_clears_nobody() -> None:
    """Forgetting whoever only asked must not blind the rules that wait. It takes less than an hour."""
    whole = Exchange(client="10.0.0.9:1")
    log_in(whole)
    for number in range(CLAIM_LIMITS[IdentityKind.BROKER] + 5):
        client = f"10.0.{number // 250 + 1}.{number % 250}:1"
        scanner = Exchange(
            records=whole.records, connection=number.to_bytes(16), client=client, at=whole.at + SECOND
        )
        scanner.negotiate()
        scanner.close()
        whole.at = scanner.at
    outcome = judged([claims_of_all(whole)])
    assert {finding.rule for finding in outcome.findings} == {"kip35/login-never-begun"}
    assert ALIKE_LIMIT <= len(outcome.findings) <= 2 * ALIKE_LIMIT


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


def closed_upon_what_is_not_listed(number: int, asks: bool) -> Exchange:
    exchange = Exchange(
        connection=number.to_bytes(16), client=f"10.0.0.{number}:1", at=number * 1_000 * SECOND
    )
    if asks:
        exchange.negotiate(client_id="app")
    exchange.request("Heartbeat", 4, client_id="app")
    exchange.close(first=Direction.TO_CLIENT)
    return exchange


def test_a_refusal_is_judged_at_once_by_what_its_connection_was_told_and_else_when_it_has_settled() -> None:
    judge, state = IdentityJudge(NAMES), IdentityState()
    (finding,) = judge.process(state, claims_of_all(closed_upon_what_is_not_listed(1, asks=True))).findings
    assert (finding.rule, finding.client) == ("kip35/version-refused", "10.0.0.1:1")
    assert judge.process(state, claims_of_all(closed_upon_what_is_not_listed(2, asks=False))).findings == []
    assert judge.tick(state).findings == []
    (finding,) = judge.tick(state).findings
    assert (finding.rule, finding.client) == ("kip35/version-refused", "10.0.0.2:1")


def asking_for(count: int) -> Exchange:
    """A client that asks for so many versions of ApiVersions, to each of which a broker responds."""
    exchange = Exchange()
    for version in range(200, 200 + count):
        frame = struct.pack(">hhihb", 18, version, version, -1, 0)
        asked = exchange.request("ApiVersions", version, frame=frame)
        exchange.respond(asked, {"errorCode": 35, "apiKeys": [APIS_OF_OLD_BROKER]}, version=0)
    return exchange


def closed_upon_version_3(exchange: Exchange) -> None:
    """Three connections on which the broker closes upon ApiVersions v3, and one that learns its versions."""
    for number in range(4):
        records, at = exchange.records, exchange.at + 10 * SECOND
        connection, client = bytes([number]) * 16, f"10.0.0.3:{40_000 + number}"
        exchange = Exchange(records=records, at=at, connection=connection, client=client)
        if number == 1:
            asked = exchange.request("ApiVersions", 0, client_id="app")
            exchange.respond(asked, {"apiKeys": [APIS_OF_OLD_BROKER]})
        else:
            exchange.request("ApiVersions", 3, SOFTWARE, client_id="app")
            exchange.close(first=Direction.TO_CLIENT)


@pytest.mark.parametrize("count", [1, CLAIM_LIMITS[IdentityKind.BROKER] + 1])
def test_a_client_that_names_many_versions_makes_nothing_of_its_server_be_forgotten(count: int) -> None:
    """A broker responds to each version of ApiVersions. Rules that wait judge nothing after such a loss."""
    exchange = asking_for(count)
    closed_upon_version_3(exchange)
    assert exchange.verdicts("kip511/unknown-version-closed") == (0, 3, 0)


def test_a_close_upon_a_version_that_is_not_remembered_accuses_nobody() -> None:
    """Whether the broker ever responded to it is not known."""
    exchange = asking_for(1)
    closed_upon_version_3(exchange)
    for record in exchange.records:
        is_asked = record.frame.startswith(struct.pack(">hh", 18, 3))
        changed = struct.pack(">hh", 18, MOST_VERSIONS) + record.frame[4:]
        object.__setattr__(record, "frame", changed if is_asked else record.frame)
    assert exchange.verdicts("kip511/unknown-version-closed") == (0, 0, 0)
