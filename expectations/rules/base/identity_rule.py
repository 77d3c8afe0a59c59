"""What a rule about shared identities is: one offence, judged on the claims of several connections.

Such a rule looks at one claim and at all others of the same identity that are known. What it says
must follow from the claims alone, in whatever order they came.
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

    A rule that `waits` accuses only when a claim had time to be followed by others that speak for it:
    it goes by what did not happen. Any other goes by what did, so that nothing that comes later can
    take it back.
    """

    kind: ClassVar[IdentityKind]
    waits: ClassVar[bool] = False

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """One connection alone is no opportunity."""
        yield from ()

    @abstractmethod
    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a claim against all others of its identity, which come in the order of their beginning.

        None if it is no opportunity to offend.
        """
