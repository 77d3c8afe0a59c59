"""wire/trailing-bytes."""

from __future__ import annotations

from expectations.conversation.observation import Failure, Observation
from expectations.rules.wire._bases import RemarkRule


class TrailingBytes(RemarkRule):
    """Checks that a frame ends where its body does, and a tagged field where its size says.

    ## Why it matters
    Kafka's readers pass over such bytes without a word. They are the mark of an encoder that has its
    schema wrong, and the next version of the schema may give them a meaning.

    ## Example
    `Heartbeat v4` with two bytes behind the tag section of its body

    ## What to do
    The context gives the place: compare the sender's encoder with Kafka's schema of that API version
    there. A body of another version than the header's is a frequent cause.

    ## What it does not cover
    Frames that cannot be decoded at all: wire/malformed-request and wire/malformed-response. Frames
    that were not captured whole, or cut unread, and responses that may belong to another request, are
    undecided.
    """

    section = "Protocol guide, the API's schema"
    requirement = "A frame holds what its schema describes and nothing more."
    needs = "a request or response"
    message = "{api} v{version} has bytes that no field accounts for: {reason} at {path}, byte {offset}"
    implies = ("kip511/unsupported-answer-not-v0",)
    expected = "no bytes but those of the schema's fields"

    def remark(self, frame: Observation) -> Failure | None:
        """Return the first bytes that no field accounts for."""
        return frame.oddity
