"""The byte ledger: what became of every captured byte of TCP payload.

At any moment, to the byte:

    captured = framed + skipped(each reason) + pending

`pending` are bytes that still wait in a buffer: out of order, or in a frame that is not whole yet.
`lost` stands beside the equation: bytes that are known to have passed on the wire, from sequence
numbers and acknowledgments, but were not captured. What was lost and turns up late is captured, and
skipped as `duplicate`, since its place in the stream was given up.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field


class Reason(enum.StrEnum):
    """Why captured payload bytes are in no frame."""

    DUPLICATE = "duplicate"
    """Its place in the stream was passed already: retransmitted, overlapping, or later than a gap."""
    CONFLICTING = "conflicting"
    """Sent twice and not alike, where the bytes captured first still waited; those won."""
    UNSYNCHRONISED = "unsynchronised"
    """After a gap or a join mid-stream, before the next frame boundary that is certain."""
    AFTER_HOLE = "after-hole"
    """The rest of a frame behind its first missing byte."""
    OPAQUE = "opaque"
    """Not the Kafka protocol: TLS, or something else on the port."""
    UNFINISHED = "unfinished"
    """A frame that never became whole."""
    AFTER_CLOSE = "after-close"
    """A straggler of a connection that is closed."""
    OWN = "own"
    """The feeder's own connection to Kafka."""
    OTHER_PORT = "other-port"
    """Between two ports that are not watched."""
    UNORIENTED = "unoriented"
    """Neither port nor SYN nor a request told which side is the broker."""


@dataclass(slots=True)
class Ledger:
    """Running totals in bytes; `packets` counts packets, by why they were skipped or as `tcp`.

    What is booked in the ledger of a connection is booked in the one `within` as well.
    """

    within: Ledger | None = None
    captured: int = 0
    framed: int = 0
    pending: int = 0
    lost: int = 0
    opaque_connections: int = 0
    skipped: Counter[Reason] = field(default_factory=Counter)
    packets: Counter[str] = field(default_factory=Counter)

    def capture(self, size: int) -> None:
        """Book payload that came in; its fate is pending."""
        self.captured += size
        self.pending += size
        if self.within is not None:
            self.within.capture(size)

    def frame(self, size: int) -> None:
        """Book pending bytes as part of a frame."""
        self.pending -= size
        self.framed += size
        if self.within is not None:
            self.within.frame(size)

    def skip(self, reason: Reason, size: int) -> None:
        """Book pending bytes as part of no frame."""
        if size:
            self.pending -= size
            self.skipped[reason] += size
            if self.within is not None:
                self.within.skip(reason, size)

    def lose(self, size: int) -> None:
        """Book bytes that passed on the wire and were not captured."""
        self.lost += size
        if self.within is not None:
            self.within.lose(size)

    def leave_alone(self) -> None:
        """Count a connection that is not Kafka."""
        self.opaque_connections += 1
        if self.within is not None:
            self.within.leave_alone()

    def fates(self) -> dict[str, int]:
        """Give the totals that only ever grow, by the name of the fate; `lost` was never captured."""
        skipped = {f"skipped-{reason}": size for reason, size in sorted(self.skipped.items())}
        return {"framed": self.framed, **skipped, "lost": self.lost}
