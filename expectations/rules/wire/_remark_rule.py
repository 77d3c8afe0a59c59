"""A base for rules on remarks: what is odd about a frame that decodes, and where."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.statement import Failure
from expectations.rules.base.rule import (
    FRAMES,
    Judgement,
    Level,
    NoState,
    Role,
    Rule,
    Verdict,
    conforms,
    undecided,
)


class RemarkRule(Rule):
    """A rule that a frame breaks if it decodes with a remark. `expected` describes a frame without."""

    expected: ClassVar[str]
    level = Level.IMPROVEMENT
    role = Role.SENDER
    kinds = FRAMES
    passes_clean = True
    uses_progress = True

    def judge(
        self, observation: Observation, conversation: Conversation, state: NoState
    ) -> Iterator[Judgement]:
        """Judge each frame that decodes."""
        is_frame = observation.kind in (Kind.REQUEST, Kind.RESPONSE)
        if not is_frame or not observation.known or observation.failure is not None:
            return
        remark = self.remark(observation)
        if observation.cut or not _is_certain(observation, remark, conversation):
            yield undecided(observation.count)
        else:
            yield conforms(observation.count) if remark is None else self._violates(observation, remark)

    @abstractmethod
    def remark(self, frame: Observation) -> Failure | None:
        """Return the remark that the rule is about."""

    def _violates(self, frame: Observation, remark: Failure) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            frame.count,
            expected=self.expected,
            observed=remark.reason,
            context=remark.context,
            role=Role.CLIENT if frame.kind is Kind.REQUEST else Role.BROKER,
        )


def _is_certain(frame: Observation, remark: Failure | None, conversation: Conversation) -> bool:
    """Whether the schema of the frame is known for certain."""
    if frame.kind is Kind.REQUEST:
        return True
    return frame.is_matched and (remark is None or conversation.is_certain(frame))
