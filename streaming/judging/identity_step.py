"""One step of a bucket of identities: judges the claims of connections that share an identity."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from decoders.retention import MILLISECOND
from expectations.identity.claim import Claim, PackedClaim
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import Identities, IdentityState
from expectations.judging.outcome import Outcome
from streaming.judging.report import Report
from streaming.judging.tally import Tally


def bucket_of_identity(digest: bytes, buckets: int) -> int:
    """Return the bucket of an identity, given its digest."""
    return int.from_bytes(digest[:4]) % buckets


class IdentityStep:
    """Steps buckets of identities. Their reports have negative numbers, unlike those of connections."""

    def __init__(self, judge: IdentityJudge) -> None:
        self._judge = judge

    def process(self, number: int, state: Identities, claims: Iterable[Claim | PackedClaim]) -> Report:
        """Process claims."""
        return _report(number, self._judge.process(state, claims))

    def tick(self, number: int, state: Identities, now: int) -> Report:
        """Judge what has settled. Must be called at regular intervals.

        `now` is the processing time in milliseconds. A claim of a later time, from a host whose clock is
        wrong, makes no other look silent.
        """
        state.clock = min(state.clock, now * MILLISECOND)
        return _report(number, self._judge.tick(state))

    def finish(self, number: int, state: IdentityState) -> Report:
        """Judge all that is known."""
        return _report(number, self._judge.finish(state))


def _report(number: int, outcome: Outcome) -> Report:
    tally = Tally({})
    for listener, checks in outcome.identity_checks.items():
        tally.add(Outcome(checks=checks), listener)
    tally.add(msgspec.structs.replace(outcome, checks={}), "")
    return tally.report(-1 - number)
