"""What the decryption of a connection passes on, and its state while another tracker reads the records."""

from __future__ import annotations

from typing import NamedTuple

from decoders.frame.record import Direction
from decoders.wire.stream import Chunk, Gap, UnsizedGap


class Unreadable(NamedTuple):
    """The connection is encrypted, and cannot be read from here on.

    `beginning` has the first bytes of the client. `captured_at` and `position` are those of the packet that
    shows it.
    """

    beginning: bytes
    captured_at: int
    position: int


class CloseNotify(NamedTuple):
    """A side says that it sends nothing more. `position` is that of the packet that carried it."""

    position: int


Passed = Chunk | Gap | UnsizedGap | Unreadable | CloseNotify


class RecordsSnapshot(NamedTuple):
    """The number of the next record of each direction, how many bytes of it are held, and in how many pieces.

    `explicit_nonce` is how many bytes of a fragment precede its ciphertext; `hides_type` means that the
    record's type is encrypted.
    """

    numbers: dict[Direction, int]
    held: dict[Direction, int]
    pieces: dict[Direction, int]
    explicit_nonce: int
    hides_type: bool
