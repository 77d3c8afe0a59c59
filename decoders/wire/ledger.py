"""The byte ledger: counts every captured byte of TCP payload as framed, skipped or pending.

At any moment, to the byte:

    captured = framed + skipped(each reason) + pending

`pending` bytes are buffered: out of order, or in a frame that is not complete. `lost` bytes are not in the
equation: sequence numbers and acknowledgments show that they passed on the wire, but they were not captured.
Lost bytes that are captured late are skipped as `duplicate`, because their place in the stream was skipped.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from decoders.tls.outcome import TlsOutcome


class SkipReason(enum.StrEnum):
    """Why captured payload bytes are in no frame. The values are part of metrics and reports."""

    DUPLICATE = "duplicate"
    """At a place that the stream has passed: retransmitted, overlapping, or captured after a gap was
    noted."""
    CONFLICTING = "conflicting"
    """Captured twice with different values, while the first was buffered: neither is used."""
    UNSYNCHRONISED = "unsynchronised"
    """After a gap or a join mid-stream, before the next certain frame boundary."""
    AFTER_HOLE = "after-hole"
    """In a frame, behind its first missing byte."""
    OPAQUE = "opaque"
    """Not the Kafka protocol: TLS, or something else on the port."""
    TLS = "tls"
    """Of TLS with a key log: the handshake, and headers, tags and padding of records that were decrypted."""
    ENCRYPTED = "encrypted"
    """Of TLS with a key log: could not be decrypted. Without a key log TLS is `opaque`."""
    UNFINISHED = "unfinished"
    """In a frame that was never completed."""
    AFTER_CLOSE = "after-close"
    """In a segment that its receiver drops: its connection is closed or was not accepted yet, or its numbers
    are not those of the connection."""
    OWN = "own"
    """On the feeder's own connection to Kafka."""
    EXCLUDED = "excluded"
    """On a connection that the configuration excludes."""
    GIVEN_UP = "given-up"
    """From or to a client that is given up, because its packets took the time of all others."""
    OTHER_PORT = "other-port"
    """Between two ports that are not watched."""
    UNORIENTED = "unoriented"
    """Neither port nor SYN nor a request showed which side is the broker."""


class Contradiction(enum.StrEnum):
    """What captured segments say against each other, as only forged or damaged ones do. Part of metrics."""

    RESET = "reset"
    """A RST that its receiver does not take, or whose connection goes on."""
    FIN = "fin"
    """A FIN that its receiver does not take, or behind which its sender sends more."""
    ACKNOWLEDGMENT = "acknowledgment"
    """An acknowledgment of bytes that were never sent."""
    SEQUENCE = "sequence"
    """Bytes ahead of all others whose receiver shows that it has not got them."""
    CONTENT = "content"
    """Other bytes at a place of the stream whose bytes are buffered: nobody can tell which were received."""
    CLOSE = "close"
    """New bytes on a connection that was closed: it is joined mid-stream."""


@dataclass(slots=True)
class Ledger:
    """Running totals in bytes; `packets` counts packets by the reason why they were skipped, or as `tcp`.

    All counts of a connection's ledger are added to the ledger `within` as well. `opaque` counts connections
    that do not carry the Kafka protocol, by the protocol that their first bytes look like. `tls` counts TLS
    connections by `TlsOutcome`; one that is read first, and cannot be read later, counts twice.
    `contradictions` counts segments by `Contradiction`.
    """

    within: Ledger | None = None
    captured: int = 0
    framed: int = 0
    pending: int = 0
    lost: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    tls: Counter[TlsOutcome] = field(default_factory=Counter)
    skipped: Counter[SkipReason] = field(default_factory=Counter)
    packets: Counter[str] = field(default_factory=Counter)
    contradictions: Counter[Contradiction] = field(default_factory=Counter)

    def capture(self, size: int) -> None:
        """Count captured payload, as pending."""
        self.captured += size
        self.pending += size
        if self.within is not None:
            self.within.capture(size)

    def frame(self, size: int) -> None:
        """Count pending bytes as part of a frame."""
        self.pending -= size
        self.framed += size
        if self.within is not None:
            self.within.frame(size)

    def skip(self, reason: SkipReason, size: int) -> None:
        """Count pending bytes as part of no frame."""
        if size:
            self.pending -= size
            self.skipped[reason] += size
            if self.within is not None:
                self.within.skip(reason, size)

    def lose(self, size: int) -> None:
        """Count bytes that passed on the wire and were not captured."""
        self.lost += size
        if self.within is not None:
            self.within.lose(size)

    def count_opaque(self, protocol: str) -> None:
        """Count a connection that does not carry the Kafka protocol but another, an `OtherProtocol`."""
        self.opaque[protocol] += 1
        if self.within is not None:
            self.within.count_opaque(protocol)

    def count_tls(self, outcome: TlsOutcome) -> None:
        """Count the outcome of a TLS connection."""
        self.tls[outcome] += 1
        if self.within is not None:
            self.within.count_tls(outcome)

    def contradict(self, contradiction: Contradiction) -> None:
        """Count a segment that contradicts others."""
        self.contradictions[contradiction] += 1
        if self.within is not None:
            self.within.contradict(contradiction)

    @property
    def opaque_connections(self) -> int:
        """The number of connections that do not carry the Kafka protocol."""
        return self.opaque.total()

    def fates(self) -> dict[str, int]:
        """Return the totals that never decrease: `framed`, `skipped-REASON` and `lost`."""
        skipped = {f"skipped-{reason}": size for reason, size in sorted(self.skipped.items())}
        return {"framed": self.framed, **skipped, "lost": self.lost}
