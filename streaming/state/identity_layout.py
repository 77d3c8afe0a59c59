"""The layout of a bucket of identities in the state store: a version byte, then msgpack."""

from __future__ import annotations

import msgspec

from expectations.judging.identity_judge import IdentityState
from streaming.state.state_error import StateError

STATE_VERSION = 1
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(IdentityState)


def pack_identities(state: IdentityState) -> bytes:
    """Lay a bucket of identities out for the state store."""
    return bytes([STATE_VERSION]) + _ENCODER.encode(state)


def unpack_identities(stored: bytes | None) -> IdentityState:
    """Read it back; None is one that was never stored. Raises StateError."""
    if stored is None:
        return IdentityState()
    if stored[:1] != bytes([STATE_VERSION]):
        raise StateError(
            f"the checkpoint holds identities of version {stored[0]}, this kipwatch writes {STATE_VERSION}: "
            "start with a new checkpoint folder"
        )
    return _DECODER.decode(stored[1:])
