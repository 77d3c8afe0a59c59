"""A bucket of identities: the state that one Spark key of the second step holds, and one step of it.

The stored bytes begin with a version, as those of a bucket of connections do.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from expectations.identity.claim import Claim, Identity
from expectations.judging.identity_judge import IdentityJudge, IdentityState
from expectations.judging.outcome import Outcome
from streaming.judging.report import Report
from streaming.judging.tally import Tally


def bucket_of_identity(identity: Identity, buckets: int) -> int:
    """Choose the bucket of an identity, the same in every process."""
    return zlib.crc32(f"{identity.kind}\0{identity.cluster}\0{identity.name}".encode()) % buckets


class IdentityStep:
    """Steps buckets of identities. A report's number is that of no bucket of connections: below 0."""

    def __init__(self, judge: IdentityJudge) -> None:
        self._judge = judge

    def hear(self, number: int, state: IdentityState, claims: Iterable[Claim]) -> Report:
        """Take claims in."""
        return _report(number, self._judge.hear(state, claims))

    def tick(self, number: int, state: IdentityState) -> Report:
        """Judge what has settled; to be called at even intervals."""
        return _report(number, self._judge.tick(state))

    def finish(self, number: int, state: IdentityState) -> Report:
        """Judge all that is known."""
        return _report(number, self._judge.finish(state))


def _report(number: int, outcome: Outcome) -> Report:
    tally = Tally({})
    tally.add(outcome)
    return tally.report(-1 - number)
