"""Says in the log what is read of the TLS on each watched port: once for each outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from decoders.tls.outcome import Outcome
from decoders.wire.ledger import Ledger
from streaming.feeder.port_watch import LATER, port_name
from streaming.log import FEEDER_LOG

PAGE: Final = "docs/tls.md#what-is-read-and-what-is-not"
UNREAD: Final = {
    Outcome.NO_KEY: "the key log has no secrets of TLS connections: let the broker or the client write them",
    Outcome.UNSUPPORTED_SUITE: "TLS connections have a version or cipher suite that is not read: "
    "offer TLS 1.2 or 1.3 with AES-GCM or ChaCha20-Poly1305",
    Outcome.NO_HANDSHAKE: "TLS connections whose beginning was not captured are not read: "
    "those that open from now on can be",
    Outcome.LOST_RECORD_NUMBERS: "TLS connections are not read any more after lost or changed bytes: "
    "clients that connect again are",
}
"""Why TLS connections are not read, and what helps."""


@dataclass(slots=True)
class _Port:
    """What of a port is told: of each outcome how many connections, and when. Times are in seconds."""

    framed: int = 0
    framed_at: float = 0.0
    told: dict[Outcome, tuple[int, float]] = field(default_factory=dict)

    def is_news(self, outcome: Outcome, count: int, now: float) -> bool:
        """Whether an outcome is the first of its kind, or nothing was read since it was told long ago."""
        if outcome not in self.told:
            return True
        told, told_at = self.told[outcome]
        is_old = now - max(told_at, self.framed_at) >= LATER
        return outcome is not Outcome.READ and count > told and is_old


class TlsWatch:
    """Looks at the byte ledgers of the watched ports from time to time. Without a key log it says nothing."""

    def __init__(self) -> None:
        self._ports: dict[int, _Port] = {}

    def check(self, ledgers: Mapping[int, Ledger], now: float) -> None:
        """Log what became of TLS connections since the last call. `now` is in seconds of a steady clock."""
        for number, ledger in ledgers.items():
            port = self._ports.setdefault(number, _Port())
            if ledger.framed > port.framed:
                port.framed, port.framed_at = ledger.framed, now
            for outcome, count in sorted(ledger.tls.items()):
                if port.is_news(outcome, count, now):
                    port.told[outcome] = count, now
                    _tell(number, outcome, count)


def _tell(number: int, outcome: Outcome, connections: int) -> None:
    name = port_name(number)
    if outcome is Outcome.READ:
        FEEDER_LOG.info("tls-read", port=number, message=f"{name}: TLS is read")
        return
    message = f"{name}: {UNREAD[outcome]}; see {PAGE}"
    FEEDER_LOG.warning("tls-not-read", port=number, outcome=outcome, connections=connections, message=message)
