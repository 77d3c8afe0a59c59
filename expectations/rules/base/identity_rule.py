"""Rules about shared identities: one offence, judged on the claims of several connections.

Such a rule compares one claim with all other known claims of the same identity. Its judgement must
depend on the claims alone, not on the order in which they arrived.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.rule import Judgement, Rule


class IdentityRule(Rule):
    """A rule about the claims of one kind of identity, or of several, each judged by itself.

    A rule that `waits` accuses because something did not happen, so it is asked only after later claims
    had time to arrive. Any other rule accuses because of what did happen, which no later claim changes. A
    rule that waits only for some claims overrides `waits_for`. The only claim of what clients show is judged
    when it is settled, whether the rule waits or not.

    A rule on claims of several kinds names the others in `further_kinds`. To most of these rules one
    connection alone is no opportunity to offend; a rule that also judges a single connection has methods for
    its observations.
    """

    kind: ClassVar[IdentityKind]
    further_kinds: ClassVar[frozenset[IdentityKind]] = frozenset()
    waits: ClassVar[bool] = False

    def waits_for(self, claim: Claim) -> bool:
        """Whether later claims may clear what a claim shows."""
        return self.waits

    @classmethod
    def judges(cls, kind: IdentityKind) -> bool:
        """Whether the rule judges claims of a kind."""
        return kind is cls.kind or kind in cls.further_kinds

    def concerns(self, claim: Claim) -> bool:
        """Whether a claim may be an opportunity to offend, whatever the others are."""
        return True

    @abstractmethod
    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a claim that concerns the rule against all others of its identity.

        These are ordered by their beginning. Returns None if the claim is no opportunity to offend.
        """
