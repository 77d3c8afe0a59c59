"""What is known of the versions that a server address supports, when it refuses a request or closes upon it.

A connection on which ranges were advertised goes by them. Any other goes by what the broker advertised to
others at the same address: the lists in force. A list that appears after another one was last made supersedes
it, as after an upgrade. Lists that are made in turns, by brokers behind one address, are all in force. A list
that was in force when the connection was opened remains so for this connection, which may lead to a broker
that nobody else asks any more.

One close proves nothing. *Closes in a row* do: the broker closes upon the same request, one connection after
another. Where nobody ever asked for versions, they show that a broker lacks a version that Kafka 4.0 removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from decoders.protocol import API_VERSIONS, CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from decoders.retention import KEPT_FOR
from expectations.identity.claim import NOT_LISTED, Claim

MINUTE: Final = 60 * 1_000_000_000
"""In nanoseconds. If the server responds to the same version within this time after a refusal, the refusal
had another cause. A login lasts longer."""
ENOUGH_CLOSES: Final = 3
"""Connections on which the same version must have been refused, one after another."""
FIRST_IN_KAFKA_4: Final = {
    0: 3,
    1: 4,
    2: 1,
    8: 2,
    9: 1,
    11: 2,
    19: 2,
    20: 1,
    23: 2,
    27: 1,
    29: 1,
    30: 1,
    31: 1,
    32: 1,
    34: 1,
    35: 1,
    38: 1,
    39: 1,
    40: 1,
    41: 1,
}
"""API key → the first version that Kafka 4.0.0 has (KIP-896). Kafka 4.0.1 took JoinGroup v0 and v1 back."""
REFUSED_FOR_CONTENT: Final = frozenset({DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS})
"""The APIs of which Kafka closes upon requests that it can decode: they name a kind of resource, pattern,
operation or permission that is unknown to it."""
Range = tuple[int, int]
"""The lowest and the highest version of an API; NOT_LISTED if a list does not have the API."""


class KnownRanges(NamedTuple):
    """What is known of one API at a server's address: its range in each list in force, latest list last.

    `by_others` is True if the lists were made to other connections. There is no range if nothing is known, or
    if one of the lists could not be read: then `is_unreadable`, and the server may support anything.
    """

    ranges: Sequence[Range]
    by_others: bool
    is_unreadable: bool = False

    def include(self, version: int) -> bool:
        """Whether any range has a version."""
        return any(lowest <= version <= highest for lowest, highest in self.ranges)

    @property
    def lists_the_api(self) -> bool:
        """Whether any list has the API."""
        return any(each != NOT_LISTED for each in self.ranges)


def known_ranges(claim: Claim, others: Sequence[Claim]) -> KnownRanges:
    """Return what was known of the API when a claim's connection was refused it."""
    assert claim.refused is not None
    if claim.refused.advertised is not None:
        return KnownRanges(_if_usable([claim.refused.advertised]), by_others=False)
    in_force, _ = _advertisements_of(claim, others)
    ranges = [each for made in in_force for each in ranges_of(made, claim.refused.api_key)]
    is_unreadable = any(not made.ranges for made in in_force)
    usable = [] if is_unreadable else _if_usable(ranges)
    return KnownRanges(usable, by_others=True, is_unreadable=is_unreadable)


def is_refused_version(claim: Claim, others: Sequence[Claim]) -> bool | None:
    """Whether a request was refused for its version: the broker is known not to support it.

    None if it is not known, or if the broker has responded to that version although its lists lack it.
    """
    assert claim.refused is not None
    known = known_ranges(claim, others)
    if claim.refused.api_version < 0:
        return None
    if not known.ranges:
        return True if _is_closed_upon_as_removed(claim, others) else None
    if known.include(claim.refused.api_version):
        return False
    if claim.refused.served and known.by_others and not claim.refused.by_error:
        return None
    is_explained = claim.refused.by_error or not known.by_others or not _is_answered(claim, others)
    return True if is_explained else None


def _is_closed_upon_as_removed(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether closes in a row show that a broker of which nobody asks the versions is a Kafka 4.

    They show nothing if it ever responded to the version, or closed upon requests that Kafka 4 has, too.
    """
    assert claim.refused is not None
    was_asked = claim.refused.advertised is not None or any(other.ranges is not None for other in others)
    if was_asked or claim.refused.by_error or not _was_removed(claim):
        return False
    closes = counted_closes(claim, others)
    is_answered = claim.refused.served or first_response(others, *claim.refused.request) is not None
    if claim not in closes or is_answered or not are_in_a_row(closes):
        return False
    beside = (each for each in others if each.refused is not None and not each.refused.by_error)
    return not any(abs(each.since - claim.since) <= MINUTE and not _was_removed(each) for each in beside)


def _was_removed(claim: Claim) -> bool:
    """Whether Kafka 4.0 removed the version that was refused."""
    assert claim.refused is not None
    return claim.refused.api_version < FIRST_IN_KAFKA_4.get(claim.refused.api_key, 0)


def advertisements(others: Sequence[Claim], at: int) -> tuple[list[Claim], list[Claim]]:
    """Return the advertisements in force at a time, the latest last, and those that they supersede."""
    made = [each for each in others if each.ranges is not None and each.since <= at <= each.until + KEPT_FOR]
    superseded = [each for each in made if any(each.until < later.since for later in made)]
    in_force = [each for each in made if each not in superseded]
    return sorted(in_force, key=lambda each: each.until), superseded


def _advertisements_of(claim: Claim, others: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
    """Return the advertisements in force while a connection lived, the latest last, and the superseded ones.

    Connections to older brokers live on when the address has passed to newer ones. It is not known when a
    connection that was joined midway began, so no list is superseded for it.
    """
    in_force, superseded = advertisements(others, claim.since)
    earlier = superseded if claim.joined else advertisements(others, claim.opened_at)[0]
    still = [each for each in superseded if each in earlier]
    over = [each for each in superseded if each not in still]
    return sorted([*still, *in_force], key=lambda each: each.until), over


def ranges_of(made: Claim, api_key: int) -> list[Range]:
    """Return the ranges that an advertisement gives for an API."""
    listed = [(lowest, highest) for key, lowest, highest in made.ranges or () if key == api_key]
    return listed or [NOT_LISTED]


def first_response(others: Sequence[Claim], api_key: int, api_version: int) -> int | None:
    """Return when the server first responded to an API version, None if it never did."""
    times = (
        each.since
        for each in others
        if not each.connection
        and each.ranges is None
        and (each.api_key, each.api_version) == (api_key, api_version)
    )
    return next(times, None)


def _is_answered(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether the server responded to the refused version, other than under a list that was superseded."""
    assert claim.refused is not None
    key, version = claim.refused.request
    answered_at = first_response(others, key, version)
    if answered_at is None or answered_at > claim.since + MINUTE:
        return False
    in_force, superseded = _advertisements_of(claim, others)
    had_it = any(
        lowest <= version <= highest for made in superseded for lowest, highest in ranges_of(made, key)
    )
    return not had_it or any(made.since <= answered_at for made in in_force)


def _if_usable(ranges: Sequence[Range]) -> Sequence[Range]:
    """Return ranges, or none of them if one is inverted."""
    return ranges if all(each == NOT_LISTED or each[0] <= each[1] for each in ranges) else []


def serves(others: Sequence[Claim], *, after_login: bool) -> bool:
    """Whether the server serves connections that logged in, or without `after_login` those that never did."""
    return any(other.after_login is after_login for other in others)


def counted_closes(claim: Claim, others: Sequence[Claim]) -> list[Claim]:
    """Return the closes upon the same request that count.

    The listener takes requests, and the request was not cut, since it may be malformed then. One of a version
    that no schema has counts all the same: the feeder keeps no more than its header.
    """
    return [each for each in _closes_upon_same(claim, others) if _counts(each, others)]


def _counts(close: Claim, others: Sequence[Claim]) -> bool:
    """Whether a close counts. The listener must take requests other than those that open a connection.

    It takes none once a login has expired (KIP-368). How long one lasts is not read, so none counts that is
    older than a MINUTE.
    """
    assert close.refused is not None
    if close.refused.is_unread and not close.refused.is_unknown:
        return False
    if close.refused.api_key in REFUSED_FOR_CONTENT:
        return False
    if close.refused.shook_hands and close.since > close.opened_at + MINUTE:
        return False
    return takes_requests(close, others)


def takes_requests(close: Claim, others: Sequence[Claim]) -> bool:
    """Whether a listener that closed surely took other requests than those that open a connection."""
    assert close.refused is not None
    return close.refused.admitted or serves(others, after_login=False)


def _closes_upon_same(claim: Claim, others: Sequence[Claim]) -> list[Claim]:
    """Return the claims of all closes upon the request that a claim's connection was closed upon."""
    assert claim.refused is not None
    request = claim.refused.request
    closes = (each for each in (claim, *others) if each.refused and not each.refused.by_error)
    return [each for each in closes if each.refused and each.refused.request == request]


def are_in_a_row(closes: Sequence[Claim]) -> bool:
    """Whether there are ENOUGH_CLOSES connections in a row, each begun after the one before was closed.

    A broker that stops closes all connections at once. A connection that two feeders see counts once.
    """
    row: list[Claim] = []
    for close in sorted(closes, key=lambda each: each.order):
        is_next = not row or close.opened_after(row[-1].since)
        if is_next and not any(close.may_be_copy_of(each) for each in row):
            row.append(close)
        if len(row) == ENOUGH_CLOSES:
            return True
    return False


def is_negotiation_refused(claim: Claim, others: Sequence[Claim]) -> bool:
    """Whether a broker closes upon a version of ApiVersions for this version, as closes in a row show.

    They show nothing if the broker ever responded to that version, if it also closed upon requests that it
    supports, or if it advertised no versions to anybody at that time.
    """
    closes = _closes_upon_same(claim, others)
    begin, end = min(close.opened_at for close in closes), max(close.since for close in closes)
    answered_at = first_response(others, API_VERSIONS, claim.api_version)
    if answered_at is not None and answered_at <= end + MINUTE:
        return False
    is_alive = any(other.ranges and other.until >= begin - MINUTE for other in others)
    return is_alive and are_in_a_row(closes) and not _is_failing(closes, others)


def _is_failing(closes: Sequence[Claim], others: Sequence[Claim]) -> bool:
    """Whether the broker closed upon requests that it may support, while it closed upon these."""
    begin, end = min(close.opened_at for close in closes), max(close.since for close in closes)
    return any(
        other.refused is not None
        and other not in closes
        and not other.refused.by_error
        and begin - MINUTE <= other.since <= end + MINUTE
        and is_refused_version(other, others) is not True
        for other in others
    )
