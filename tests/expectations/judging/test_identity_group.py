"""Claims of an identity are bounded, and a client that is refused for ever displaces nobody."""

from __future__ import annotations

import msgspec

from expectations.identity.claim import Claim, Identity, IdentityKind, Refused
from expectations.identity.server_claim import advertised_claim, answered_claim
from expectations.judging.identity_state import (
    ADVERTISEMENTS_LIMIT,
    ALIKE_LIMIT,
    CLAIM_LIMITS,
    HOUR,
    SETTLED_AFTER,
    Group,
)
from tests.exchange import SECOND

SERVER = "10.0.0.2:9092"
LIMIT = CLAIM_LIMITS[IdentityKind.BROKER]


def refusal(number: int, host: int = 1, at: int | None = None) -> Claim:
    """A connection that is closed upon JoinGroup v1."""
    since = number * SECOND if at is None else at
    claim = answered_claim("", SERVER, 11, 1, since)
    return msgspec.structs.replace(
        claim, connection=number.to_bytes(16), client=f"10.{host}:40000", refused=Refused(11, 1)
    )


def test_the_first_refusals_of_an_hour_are_kept_in_any_order() -> None:
    claims = [refusal(number) for number in range(100)]
    one, other = Group(), Group()
    assert one.add(claims, 0) == []
    for claim in reversed(claims):
        assert other.add([claim], 0) == []
    kept = {known.claim.since for known in one.known}
    assert kept == {known.claim.since for known in other.known} == {n * SECOND for n in range(ALIKE_LIMIT)}
    one.add([refusal(200, at=HOUR)], 0)
    assert len(one.known) == ALIKE_LIMIT + 1


def test_a_thousand_refused_clients_are_kept_beside_one_that_repeats_itself() -> None:
    group = Group()
    group.add([refusal(number) for number in range(500)], 0)
    group.add([refusal(1_000 + host, host) for host in range(2, LIMIT + 1)], 0)
    assert len({known.claim.client_host for known in group.known}) == len(group.known) == LIMIT


def test_a_forgotten_refusal_blinds_no_rule_and_anything_else_does() -> None:
    group = Group()
    assert len(group.add([refusal(host, host) for host in range(LIMIT + 10)], 0)) == 10
    assert not group.has_forgotten
    assert group.add([answered_claim("", SERVER, key, 0, 1) for key in range(LIMIT)], 0)
    assert not group.has_forgotten
    group.add([answered_claim("", SERVER, LIMIT, 0, 1)], 0)
    assert group.has_forgotten


def test_advertisements_are_bounded() -> None:
    group = Group()
    lists = [
        advertised_claim("", SERVER, ((3, 0, top),), top, b"") for top in range(ADVERTISEMENTS_LIMIT + 3)
    ]
    group.add(lists, 0)
    assert [known.claim for known in group.known] == lists[3:]
    assert group.has_forgotten


def test_lists_that_a_server_has_not_advertised_before_are_counted() -> None:
    """The first one that is seen is no change, nor is one that is made again; batches do not matter."""
    first, second, third = (advertised_claim("", SERVER, ((3, 0, top),), top, b"") for top in (1, 2, 3))
    for batches, changes in [
        ([[first]], 0),
        ([[first], [first], [first, second]], 1),
        ([[first, second], [second, first]], 1),
        ([[second, first, third]], 2),
        ([[refusal(1), first], [refusal(2)], [third]], 1),
    ]:
        group, counted = Group(), 0
        for batch in batches:
            counted += group.new_advertisements(batch)
            group.add(batch, 0)
        assert counted == changes


def test_a_list_that_is_made_again_unsettles_nothing() -> None:
    group = Group()
    group.add([advertised_claim("", SERVER, ((3, 0, 1),), 10, b"")], 0)
    assert group.due_tick == SETTLED_AFTER
    group.settle(SETTLED_AFTER)
    group.add([advertised_claim("", SERVER, ((3, 0, 1),), 20, b"")], 2)
    assert not group.due_tick
    assert (group.known[0].claim.since, group.known[0].claim.until) == (10, 20)
    group.add([advertised_claim("", SERVER, ((3, 0, 1),), 5, b"")], 2)
    assert group.due_tick == 2 + SETTLED_AFTER


def test_other_identities_forget_the_oldest_that_has_left() -> None:
    group, limit = Group(), CLAIM_LIMITS[IdentityKind.CLIENT]
    identity = Identity(IdentityKind.CLIENT, "", "10.0.0.1\0app")
    claims = [
        msgspec.structs.replace(refusal(number), identity=identity, refused=None, has_left=number % 2 == 0)
        for number in range(limit + 1)
    ]
    (forgotten,) = group.add(claims, 0)
    assert forgotten.claim == claims[0]
    assert group.has_forgotten
