"""Which lists are in force at a server address, and which versions Kafka 4.0 removed."""

from __future__ import annotations

import pytest

from decoders.retention import KEPT_FOR
from decoders.schema.registry import default_schemas
from expectations.identity.claim import Claim
from expectations.identity.known_ranges import FIRST_IN_KAFKA_4, advertisements, ranges_of
from expectations.identity.server_claim import LONGEST_ADVERTISEMENT, advertised_claim
from expectations.rules.kip_35.version_refused import removal

OLD, NEW = ((11, 0, 9),), ((11, 2, 9),)
JOIN_GROUP = 11


def made(ranges: tuple[tuple[int, int, int], ...], since: int, until: int) -> Claim:
    """A list that was first and last made at these times."""
    first, last = (advertised_claim("", "10.0.0.2:9092", ranges, at, b"w" * 16) for at in (since, until))
    return last.merged(first)


@pytest.mark.parametrize(
    ("old", "new", "at", "in_force"),
    [
        ((10, 20), (30, 40), 5, []),
        ((10, 20), (30, 40), 25, [OLD]),
        ((10, 20), (30, 40), 30, [NEW]),
        ((10, 35), (30, 40), 32, [OLD, NEW]),
        ((10, 20), (30, 40), 40 + KEPT_FOR + 1, []),
    ],
    ids=["before any", "before the upgrade", "after it", "in turns", "long silent"],
)
def test_a_list_is_in_force_until_another_supersedes_it(
    old: tuple[int, int], new: tuple[int, int], at: int, in_force: list[object]
) -> None:
    claims = [made(OLD, *old), made(NEW, *new)]
    found, _ = advertisements(claims, at)
    assert [claim.ranges for claim in found] == in_force


def test_equal_lists_are_one_claim_and_others_are_not() -> None:
    one, other = made(((3, 0, 9), (11, 0, 9)), 1, 1), made(((11, 0, 9), (3, 0, 9)), 2, 2)
    assert one.first_sequence == other.first_sequence != made(NEW, 1, 1).first_sequence
    merged = other.merged(one)
    assert (merged.since, merged.until) == (1, 2)
    assert one.merged(other) == merged


def test_a_list_that_is_too_long_is_remembered_without_its_entries() -> None:
    claim = made(tuple((key, 0, 1) for key in range(LONGEST_ADVERTISEMENT + 1)), 1, 1)
    assert claim.ranges == ()


def test_an_api_that_is_listed_twice_has_both_ranges() -> None:
    assert ranges_of(made(OLD + NEW, 1, 1), JOIN_GROUP) == [(0, 9), (2, 9)]
    assert ranges_of(made(OLD, 1, 1), 3) == [(0, -1)]


def test_removed_versions_are_those_that_the_schemas_begin_without() -> None:
    """Kafka 4.0.1 took two versions of JoinGroup back."""
    lowest = {api.key: api.versions.lowest for api in default_schemas().apis if api.key in FIRST_IN_KAFKA_4}
    assert lowest | {JOIN_GROUP: FIRST_IN_KAFKA_4[JOIN_GROUP]} == FIRST_IN_KAFKA_4


def test_a_removal_is_named_only_where_the_range_begins_with_kafka_4() -> None:
    assert removal(JOIN_GROUP, 1, 2) == "; Kafka 4.0 removed the versions below (KIP-896)"
    assert removal(JOIN_GROUP, 1, 5) == removal(JOIN_GROUP, 3, 2) == removal(3, 0, 1) == ""
