"""wire/encoding-not-canonical."""

from __future__ import annotations

from expectations.conversation.observation import Failure, Observation
from expectations.rules.wire._bases import RemarkRule


class EncodingNotCanonical(RemarkRule):
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
    A frame with several such places is reported with the first. Frames that were not captured whole, or cut
    unread, are undecided, and so are responses that may belong to another request. Bytes that no field
    accounts for are wire/trailing-bytes.
    """

    section = "Protocol guide, Protocol Primitive Types"
    requirement = "Tags ascend, varints are as short as possible, null has the length -1, strings are UTF-8."
    needs = "a request or response"
    message = "{api} v{version} is not encoded as Kafka encodes it: {reason} at {path}, byte {offset}"
    expected = "the encoding that Kafka's own classes write"

    def remark(self, frame: Observation) -> Failure | None:
        """Return the remark on the first field that Kafka encodes in another way."""
        return frame.encoding
