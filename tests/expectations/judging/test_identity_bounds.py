"""What is remembered of identities is bounded, and what is forgotten accuses nobody and clears nobody."""

from __future__ import annotations

import struct

import msgspec
import pytest
from msgspec.structs import replace

from decoders.frame.record import Direction
from expectations.identity.claim import IdentityKind
from expectations.identity.server_claim import MOST_VERSIONS
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import (
    ADVERTISEMENTS_LIMIT,
    ALIKE_LIMIT,
    CLAIM_LIMITS,
    GROUP_LIMIT,
    IdentityState,
)
from tests.exchange import SECOND, SOFTWARE, Exchange, added_up
from tests.expectations.judging.claims import (
    NAMES,
    claims_of_all,
    closed_upon_what_is_not_listed,
    instance,
    judged,
    log_in,
    negotiated,
    strangers,
)

NOT_REPEATED = "kip35/negotiation-not-repeated"
APIS_OF_OLD_BROKER = {"apiKey": 18, "minVersion": 0, "maxVersion": 2}


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
    for place, record in enumerate(exchange.records):
        if record.frame.startswith(struct.pack(">hh", 18, 3)):
            changed = struct.pack(">hh", 18, MOST_VERSIONS) + record.frame[4:]
            exchange.records[place] = replace(record, frame=changed)
    assert exchange.verdicts("kip511/unknown-version-closed") == (0, 0, 0)
