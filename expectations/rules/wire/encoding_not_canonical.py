"""wire/encoding-not-canonical."""

from __future__ import annotations

from collections.abc import Iterator

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


class EncodingNotCanonical(Rule):
    """Checks that a frame encodes its fields as Kafka does.

    ## Why it matters
    Kafka's readers pass over such an encoding without a word, other readers refuse it: brokers that are
    not Apache Kafka, proxies, analysers. Text that is not UTF-8 loses characters at the broker, so two
    clients may get one name there.

    ## Example
    `ApiVersions v3` with a tag section that holds tag 9 twice

    ## What to do
    The context gives the reason and the place: compare the sender's encoder with the protocol guide there.

    - `tag-order`: the tags of a section ascend, none comes twice (KIP-482). A map that is written in the
      order of its declaration is a frequent cause.
    - `overlong-varint`: a varint has no more bytes than its value needs. A proxy that writes a shorter
      number in the place of a longer one is a frequent cause.
    - `negative-length`: null is the length -1 and no other negative number.
    - `invalid-utf8`: strings are UTF-8. A client ID in Latin-1 is a frequent cause.

    ## What it does not cover
    A frame with several such places is reported with the first. Requests and responses that carry
    record payloads are cut, so they are undecided, and so are responses that may belong to another
    request. Bytes that no field accounts for are wire/trailing-bytes.
    """

    section = "Protocol guide, Protocol Primitive Types"
    requirement = "Tags ascend, varints are as short as possible, null has the length -1, strings are UTF-8."
    message = "{api} v{version} is not encoded as Kafka encodes it: {reason} at {path}, byte {offset}"
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
        if observation.cut or not _is_certain(observation, conversation):
            yield undecided(observation.count)
        elif observation.encoding is None:
            yield conforms(observation.count)
        else:
            yield self._violates(observation, observation.encoding)

    def _violates(self, observation: Observation, encoding: Failure) -> Judgement:
        return Judgement(
            Verdict.VIOLATES,
            observation.count,
            expected="the encoding that Kafka's own classes write",
            observed=encoding.reason,
            context=encoding.context,
            role=Role.CLIENT if observation.kind is Kind.REQUEST else Role.BROKER,
        )


def _is_certain(observation: Observation, conversation: Conversation) -> bool:
    """Whether the schema of the frame is known for certain."""
    if observation.kind is Kind.REQUEST:
        return True
    return observation.is_matched and (observation.encoding is None or conversation.is_certain(observation))
