"""What KIP-1313 argues by, in numbers: bytes of client IDs in request headers, repeated or saved.

A client on request header 3 sends its client ID in the first request of a connection and null afterwards
(Motivation; Proposed Changes). The length prefix stays, so a null saves the bytes of the text. In exchange
each header has the 16 bytes of the client instance ID.
"""

from __future__ import annotations

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation

INSTANCE_ID_BYTES = 16
"""Bytes of a client instance ID in a header."""


class HeaderBytes(msgspec.Struct):
    """Requests and bytes of request headers: of one connection, or in sum.

    `requests` have a header that is certain, `on_header_v3` of them header 3. `with_client_id` have a client
    ID, and `nulls_on_v3` have header 3 and none. `repeated` are the bytes of client IDs that were sent after
    the first of a connection, `saved` those that nulls on header 3 saved.
    """

    requests: int = 0
    on_header_v3: int = 0
    with_client_id: int = 0
    nulls_on_v3: int = 0
    repeated: int = 0
    saved: int = 0

    @property
    def instance_ids(self) -> int:
        """Bytes of client instance IDs."""
        return self.on_header_v3 * INSTANCE_ID_BYTES

    def record(self, observation: Observation) -> None:
        """Record an observation of a connection."""
        if observation.kind is not Kind.REQUEST or not observation.has_header:
            return
        self.requests += observation.count
        self.on_header_v3 += observation.count * observation.uses_header_v3
        if observation.client_id is not None:
            self.with_client_id += observation.count
        elif observation.uses_header_v3:
            self.nulls_on_v3 += observation.count

    def conclude(self, conversation: Conversation) -> None:
        """Complete the bytes of a connection that has ended."""
        length = len((conversation.client_id or "").encode("utf-8", "surrogatepass"))
        self.repeated = length * max(0, self.with_client_id - 1)
        self.saved = length * self.nulls_on_v3

    def add(self, other: HeaderBytes) -> None:
        """Add those of a connection that has ended."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
