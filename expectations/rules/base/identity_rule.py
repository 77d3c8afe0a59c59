"""What a rule about shared identities is: one offence, judged on the claims of several connections.

Such a rule compares one claim with all other known claims of the same identity. Its judgement must
depend on the claims alone, not on the order in which they arrived.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.rule import Judgement, NoState, Rule


class IdentityRule(Rule):
    """A rule about the claims of one kind of identity.

    A rule that `waits` accuses because something did not happen, so it is asked only after later claims
    had time to arrive. Any other rule accuses because of what did happen, which no later claim changes.
    """

    kind: ClassVar[IdentityKind]
    waits: ClassVar[bool] = False

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge nothing: one connection alone is no opportunity to offend."""
        yield from ()

    @abstractmethod
    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a claim against all others of its identity, which are ordered by their beginning.

        Returns None if the claim is no opportunity to offend.
        """
