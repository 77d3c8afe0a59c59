"""Bases for rules on how responses are paired with requests, and on remarks: what is odd about a frame."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from decoders.frame.record import Kind, Pairing
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Failure, Observation
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


class PairingRule(Rule):
    """A rule that a response breaks by its pairing. Responses of a pairing that is not named are not judged.

    `conforming` are the pairings that keep the rule, `offence` is the one that breaks it. `observed` says
    what is reported of an offence, with the correlation ID in braces.
    """

    conforming: ClassVar[frozenset[Pairing]]
    offence: ClassVar[Pairing]
    expected: ClassVar[str]
    observed: ClassVar[str]
    level = Level.VIOLATION
    role = Role.BROKER
    passes_clean = True

    def on_response(self, response: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each response by how it was paired."""
        if response.pairing in self.conforming:
            yield conforms(response.count)
        elif response.pairing is Pairing.UNKNOWN:
            yield undecided(Reason.UNPAIRED, response.count)
        elif response.pairing is self.offence:
            correlation_id = str(response.correlation_id)
            yield violates(
                response.count,
                expected=self.expected,
                observed=self.observed.format(correlation_id),
                context={"observed": correlation_id},
            )


class RemarkRule(Rule):
    """A rule that a frame breaks if it decodes with a remark. `expected` describes a frame without."""

    expected: ClassVar[str]
    level = Level.IMPROVEMENT
    role = Role.SENDER
    passes_clean = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request that decodes."""
        return self._judge(request, conversation)

    def on_response(self, response: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each response that decodes."""
        return self._judge(response, conversation)

    @abstractmethod
    def remark(self, frame: Observation) -> Failure | None:
        """Return the remark that the rule is about."""

    def _judge(self, frame: Observation, conversation: Conversation) -> Judgements:
        if not frame.known or frame.failure is not None:
            return
        remark = self.remark(frame)
        if frame.is_partly_read or not _is_certain(frame, remark, conversation):
            yield undecided(Reason.CUT if frame.is_partly_read else Reason.UNPAIRED, frame.count)
        elif remark is None:
            yield conforms(frame.count)
        else:
            role = Role.CLIENT if frame.kind is Kind.REQUEST else Role.BROKER
            yield violates(frame.count, self.expected, remark.reason, remark.context, role=role)


def _is_certain(frame: Observation, remark: Failure | None, conversation: Conversation) -> bool:
    """Whether the schema of the frame is known for certain."""
    if frame.kind is Kind.REQUEST:
        return True
    return frame.is_matched and (remark is None or conversation.is_certain(frame))
