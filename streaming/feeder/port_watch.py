"""Says in the log which watched ports carry nothing that can be judged: no traffic, TLS, another protocol.

What becomes of TLS beside a key log is `tls_watch`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.other_protocol import OtherProtocol
from streaming.log import FEEDER_LOG

ANY_PORT = 0
"""Stands for all ports where none is named."""
SILENT_AT_START = 60.0
"""Seconds for which a port may carry nothing after the start. Somebody is likely to read the log then."""
OPAQUE_AT_START = 10.0
"""Seconds for which a port that has carried no frame may carry another protocol."""
LATER = 900.0
"""The same for a port that has carried something: a quiet cluster is silent for minutes."""
PAGE = "docs/feed.md"


@dataclass(slots=True)
class _Port:
    """What a port has carried. Times are in seconds, `opaque_since` counts from the latest frame."""

    captured_at: float
    captured: int = 0
    framed: int = 0
    opaque: int = 0
    opaque_since: float | None = None
    is_silence_told: bool = False
    is_opaque_told: bool = False

    def note(self, ledger: Ledger, now: float) -> None:
        opaque = ledger.skipped[SkipReason.OPAQUE]
        if ledger.captured > self.captured:
            self.captured_at, self.is_silence_told = now, False
        if ledger.framed > self.framed:
            self.opaque_since, self.is_opaque_told = None, False
        elif opaque > self.opaque and self.opaque_since is None:
            self.opaque_since = now
        self.captured, self.framed, self.opaque = ledger.captured, ledger.framed, opaque

    def is_silent(self, now: float) -> bool:
        return now - self.captured_at >= (LATER if self.captured else SILENT_AT_START)

    def is_opaque(self, now: float) -> bool:
        since = self.opaque_since
        return since is not None and now - since >= (LATER if self.framed else OPAQUE_AT_START)


class PortWatch:
    """Looks at the byte ledgers of the watched ports from time to time, and logs each trouble once.

    `source` says where packets come from, such as "interface lo".
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._ports: dict[int, _Port] = {}

    def check(self, ledgers: Mapping[int, Ledger], now: float) -> None:
        """Log the ports that carry nothing, or only other protocols. `now` is in seconds of a steady clock.

        The first call counts as the start.
        """
        for number, ledger in ledgers.items():
            port = self._ports.setdefault(number, _Port(captured_at=now))
            port.note(ledger, now)
            if port.is_silent(now) and not port.is_silence_told:
                port.is_silence_told = True
                FEEDER_LOG.warning(
                    "no-traffic", port=number, message=self._silence(number, now - port.captured_at)
                )
            if port.is_opaque(now) and not port.is_opaque_told:
                port.is_opaque_told = True
                protocol = ledger.opaque.most_common(1)[0][0]
                FEEDER_LOG.warning(
                    "not-kafka", port=number, protocol=protocol, message=_opacity(number, protocol)
                )

    def _silence(self, number: int, seconds: float) -> str:
        return (
            f"{port_name(number)} on {self._source} has carried nothing for {seconds:.0f} s: "
            f"check the port and the interface; see {PAGE}#nothing-arrives"
        )


def port_name(number: int) -> str:
    """Return what a port is called in the log."""
    return f"port {number}" if number else "every port"


def _opacity(number: int, protocol: str) -> str:
    if protocol == OtherProtocol.TLS:
        return f"{port_name(number)} carries TLS: nothing is judged there; see {PAGE}#tls"
    carried = "something that is not Kafka" if protocol == OtherProtocol.NOISE else protocol
    return f"{port_name(number)} carries {carried}: nothing is judged there; see {PAGE}#other-protocols"
