"""Who holds an identity that several connections show, and who had it first.

A holder is a client as far as its connections tell: one host, one software, one client ID. An identity may
be copied, by an image or by a stranger who has seen it. If its first holder then reconnects beside the
second, it is not the one that came second.
"""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim


def is_of_holder(claim: Claim, other: Claim) -> bool:
    """Whether two connections are of one holder, as far as they tell."""
    if claim.client_host != other.client_host:
        return False
    mine, others = ((each.named_software, each.client_id) for each in (claim, other))
    return all(None in pair or pair[0] == pair[1] for pair in zip(mine, others, strict=True))


def came_second(claim: Claim, other: Claim, others: Sequence[Claim]) -> bool:
    """Whether the holder of a connection showed the identity later than that of another one.

    `others` are all connections that show it but that of `claim`.
    """
    if is_of_holder(claim, other):
        return other.order < claim.order
    for each in sorted((*others, claim), key=lambda each: each.order):
        is_of_one, is_of_other = is_of_holder(each, claim), is_of_holder(each, other)
        if is_of_one is not is_of_other:
            return is_of_other
    return other.order < claim.order


def software_of(claim: Claim) -> str:
    """Return the software of a holder as findings show it."""
    return " ".join(claim.named_software or ("unknown",))
