"""kip1313/instance-id-shared."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.conversation.texts import identifier_text
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.same_client import (
    MOST_OFFSET,
    came_second,
    may_be_relayed,
    may_be_translated,
    software_of,
)
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import (
    IdentityRule,
    Judgement,
    Level,
    Role,
    Verdict,
    conforms,
    undecided,
    violates,
)


class InstanceIdShared(IdentityRule):
    """Checks that two clients that are connected at once do not present one client instance ID.

    ## Why it matters
    The ID is there to tell client instances apart. Two that share one are a single client in the
    broker's logs, metrics and telemetry.

    ## Example
    Two connections to one broker carry the ID `7b6e…`, the first with software "orders", the second
    with software "billing". The finding is about the second one, and names both.

    ## What to do
    Generate the ID in the client's constructor from a good source of randomness. Look for an ID that
    is configured, copied with an image, or made before the process forks.

    ## What it does not cover
    Which of two clients copied the ID is not known, only whose connection showed it first. A finding is about
    the other client, the one that came second. If the first one reconnects beside it, that is undecided,
    unless what the first one did before becomes known only later, as from a feeder that lags: then both may
    be accused.

    Connections of one client instance carry one ID. Only connections that differ in software or in the
    initial client ID belong to two instances. Where nothing differs but something is not known, or one of
    them gives no client ID, it is undecided. Another client address alone is information, since a client may
    have several interfaces or sit behind address translation.

    It is undecided if both may be one connection, captured on both sides of the translation: they open and
    send requests at one offset (10 ms more or less, 1 s at most), of which the opening or the first request
    may differ, also because bytes before it were lost, or one was joined midway, and no request of one comes
    between two of the other. Connections with the same addresses and ports are one connection that two
    feeders see.

    Connections that were not in use at the same time are not compared. Connections to different brokers are
    compared only in software and client ID, and only if they were in use together for more than 1 s, since
    the clocks of two feeders differ. It is undecided if they may be one connection, captured on both sides of
    a proxy that names the client otherwise.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = "Each client instance generates a client instance ID of its own."
    needs = "two connections at once under header v3"
    message = (
        "client instance ID {instance_id} is also presented by {other}, whose client came first: "
        "{differs} differs"
    )
    level = Level.VIOLATION
    role = Role.CLIENT
    kind = IdentityKind.INSTANCE

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Compare a connection with others that are in use beside it."""
        verdicts = []
        for other in others:
            if not _are_beside(claim, other):
                continue
            judgement = self._judge_pair(claim, other)
            if judgement.verdict is Verdict.VIOLATES and not came_second(claim, other, others):
                judgement = undecided(Reason.AMBIGUOUS_PROCESS)
            if other.order < claim.order or judgement.verdict is Verdict.VIOLATES:
                verdicts.append(judgement)
        return min(verdicts, key=_weight, default=None)

    def _judge_pair(self, claim: Claim, other: Claim) -> Judgement:
        differs = _difference(claim, other)
        if differs is not None and claim.server != other.server and may_be_relayed(claim, other):
            return undecided(Reason.SEEN_TWICE)
        if differs is not None:
            return self._violates(claim, other, differs, Level.VIOLATION)
        if may_be_translated(claim, other):
            return undecided(Reason.SEEN_TWICE)
        if claim.client_host != other.client_host:
            return self._violates(claim, other, "only the address", Level.INFORMATION)
        alike = claim.initial_client_id == other.initial_client_id
        is_known = alike and _is_all_known(claim) and _is_all_known(other)
        return conforms() if is_known else undecided(Reason.NOT_SHOWN)

    def _violates(self, claim: Claim, other: Claim, differs: str, level: Level) -> Judgement:
        instance_id = identifier_text(claim.instance_id or b"")
        return violates(
            expected="an ID that no other client instance has",
            observed=f"{instance_id} at {other.client}, too",
            context={
                "instance_id": instance_id,
                "other": other.client,
                "other_software": software_of(other),
                "differs": differs,
            },
            level=level,
        )


def _are_beside(claim: Claim, other: Claim) -> bool:
    """Whether the earlier one of two connections was used after the other one began.

    One to another server, perhaps captured by another clock, is compared only if it shows another client.
    """
    if other.has_addresses_of(claim):
        return False
    earlier, later = sorted((claim, other), key=lambda each: each.order)
    if other.server == claim.server:
        return earlier.until > later.since
    return earlier.until > later.since + MOST_OFFSET and _difference(claim, other) is not None


def _difference(claim: Claim, other: Claim) -> str | None:
    """Return what distinguishes two client instances."""
    if claim.software is not None and other.software is not None:
        if claim.software.name != other.software.name:
            return "the software name"
        if claim.software.version != other.software.version:
            return "the software version"
    client_ids = {claim.initial_client_id, other.initial_client_id}
    both_given = claim.first_is_known and other.first_is_known and None not in client_ids
    return "the client ID" if both_given and len(client_ids) > 1 else None


def _is_all_known(claim: Claim) -> bool:
    return claim.software is not None and claim.first_is_known


def _weight(judgement: Judgement) -> int:
    """Return a key that sorts judgements: a violation before undecided, undecided before conforming."""
    if judgement.verdict is Verdict.VIOLATES:
        return 0 if judgement.level is Level.VIOLATION else 1
    return 2 if judgement.verdict is Verdict.UNDECIDED else 3
