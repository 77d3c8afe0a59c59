"""Packed claims: choosing and joining keep each claim with its row."""

from __future__ import annotations

import numpy as np

from expectations.identity.claim import Claim
from expectations.identity.packed_claims import NO_CONNECTION, PackedClaims
from tests.expectations.judging.claims import claims_of_all, negotiated


def claims() -> list[Claim]:
    return claims_of_all(negotiated(1, asks=True)) + claims_of_all(negotiated(2, asks=False))


def assert_rows_are_of(packed: PackedClaims, claims: list[Claim]) -> None:
    assert list(packed) == claims
    assert len(packed) == len(claims)
    assert packed.table[["digest", "connection", "until", "kind"]].tolist() == [
        (claim.identity.digest, claim.connection or NO_CONNECTION, claim.until, claim.identity.kind)
        for claim in claims
    ]


def test_claims_are_those_that_were_packed() -> None:
    assert {bool(claim.connection) for claim in claims()} == {True, False}
    assert_rows_are_of(PackedClaims.of(claims()), claims())
    assert_rows_are_of(PackedClaims(), [])
    assert not PackedClaims.of([])


def test_chosen_claims_are_in_the_order_in_which_they_are_chosen() -> None:
    told = claims()
    numbers = np.arange(len(told))[::-2]
    assert_rows_are_of(PackedClaims.of(told).chosen(numbers), [told[number] for number in numbers])


def test_joined_claims_follow_each_other() -> None:
    told = claims()
    parts = [PackedClaims.of(told[:3]), PackedClaims(), PackedClaims.of(told[3:])]
    assert_rows_are_of(PackedClaims.joined(parts), told)
    assert_rows_are_of(PackedClaims.joined([]), [])
