"""What the first stage hands to the second: the windows of one bucket, told briefly to travel light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import zstandard

from expectations.conversation.connection_window import BriefWindow, ConnectionWindow, Moment
from expectations.conversation.observation import Observation
from expectations.judging.fingerprint import Saying


class FoldedWindow(NamedTuple):
    """A window that is not put together before somebody wants to read it."""

    brief: BriefWindow
    sayings: dict[int, Saying]

    @property
    def connection(self) -> bytes:
        """The id of its connection."""
        return self.brief.speakers.connection

    @property
    def first_sequence(self) -> int:
        """The first sequence of the first moment, 0 if there is none."""
        return self.brief.moments[0].first_sequence if self.brief.moments else 0

    def observed(self, moments: list[Moment]) -> ConnectionWindow:
        """Give the window with these of its moments."""
        return ConnectionWindow(
            *self.brief.speakers,
            [moment.observed(self.sayings[moment.saying].observation) for moment in moments],
        )


class Folded(msgspec.Struct):
    """What one Arrow batch says to one bucket; `sayings` is what its windows say, by number.

    `unreadable` counts records that could not be unpacked. `captured` counts those of the whole batch by
    capture time, in tenths of a second; it is told to one bucket only.
    """

    briefs: list[BriefWindow] = []
    sayings: dict[int, Observation] = {}
    unreadable: int = 0
    captured: dict[int, int] = {}

    def windows(self) -> Iterator[FoldedWindow]:
        """Give its windows."""
        sayings = {number: Saying(observation) for number, observation in self.sayings.items()}
        for brief in self.briefs:
            yield FoldedWindow(brief, sayings)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Folded)
# Windows resemble each other: a tenth of their bytes passes from process to process.
_COMPRESSOR = zstandard.ZstdCompressor(level=1)
_DECOMPRESSOR = zstandard.ZstdDecompressor()


def pack_folded(folded: Folded) -> bytes:
    """Lay it out for the way."""
    return _COMPRESSOR.compress(_ENCODER.encode(folded))


def unpack_folded(packed: bytes) -> Folded:
    """Read it back."""
    return _DECODER.decode(_DECOMPRESSOR.decompress(packed))
