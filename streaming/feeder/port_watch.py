"""Tells which watched ports carry nothing that can be judged: no traffic, TLS, or another protocol.

While the feeder runs, two watches compare the byte ledgers of the ports and log each trouble once:
`PortWatch` silent ports and other protocols, `TlsWatch` the outcomes of TLS beside a key log. After a capture
file from which nothing was published, `nothing_published` tells which of its ports carry Kafka.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.tls.outcome import TlsOutcome
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.frame_detector import OtherProtocol
from decoders.wire.ledger import Ledger, SkipReason
from streaming.feeder.source import open_capture
from streaming.log import FEEDER_LOG

ANY_PORT = 0
"""Stands for all ports if none is named."""
SILENT_AT_START = 60.0
"""Seconds after the start for which a port may carry nothing: few, while somebody reads the log."""
OPAQUE_AT_START = 10.0
"""Seconds for which a port without a frame so far may carry another protocol."""
LATER = 900.0
"""Both periods once a port has carried something: a quiet cluster is silent for minutes."""
PAGE = "docs/feed.md"
TLS_PAGE: Final = "docs/tls.md#what-is-read-and-what-is-not"
UNREAD: Final = {
    TlsOutcome.NO_KEY: "the key log has no secrets of TLS connections: "
    "let the broker or the client write them",
    TlsOutcome.UNSUPPORTED_SUITE: "TLS connections have a version or cipher suite that is not read: "
    "offer TLS 1.2 or 1.3 with AES-GCM or ChaCha20-Poly1305",
    TlsOutcome.NO_HANDSHAKE: "TLS connections whose beginning was not captured are not read: "
    "those that open from now on can be",
    TlsOutcome.LOST_RECORD_NUMBERS: "TLS connections are not read any more after lost or changed bytes: "
    "clients that connect again are",
}
"""Why TLS connections are not read, and what helps."""
_NAMED = 5
"""How many ports the message gives, those with the most requests."""


@dataclass(slots=True)
class _PortTraffic:
    """What a port has carried so far, and what was logged of it. Times are in seconds.

    `opaque_since` is when bytes of another protocol first followed the latest frame.
    """

    captured_at: float
    captured: int = 0
    framed: int = 0
    opaque: int = 0
    opaque_since: float | None = None
    is_silence_logged: bool = False
    is_opaque_logged: bool = False

    def note(self, ledger: Ledger, now: float) -> None:
        opaque = ledger.skipped[SkipReason.OPAQUE]
        if ledger.captured > self.captured:
            self.captured_at, self.is_silence_logged = now, False
        if ledger.framed > self.framed:
            self.opaque_since, self.is_opaque_logged = None, False
        elif opaque > self.opaque and self.opaque_since is None:
            self.opaque_since = now
        self.captured, self.framed, self.opaque = ledger.captured, ledger.framed, opaque

    def is_silent(self, now: float) -> bool:
        return now - self.captured_at >= (LATER if self.captured else SILENT_AT_START)

    def is_opaque(self, now: float) -> bool:
        since = self.opaque_since
        return since is not None and now - since >= (LATER if self.framed else OPAQUE_AT_START)


class PortWatch:
    """Logs ports that carry nothing or another protocol, each trouble once.

    `source` names where packets come from, such as "interface lo".
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._ports: dict[int, _PortTraffic] = {}

    def check(self, ledgers: Mapping[int, Ledger], now: float) -> None:
        """Compare the ledgers with those of the last call. `now` is in seconds of a steady clock.

        The first call counts as the start.
        """
        for number, ledger in ledgers.items():
            port = self._ports.setdefault(number, _PortTraffic(captured_at=now))
            port.note(ledger, now)
            if port.is_silent(now) and not port.is_silence_logged:
                port.is_silence_logged = True
                FEEDER_LOG.warning(
                    "no-traffic", port=number, message=self._silence(number, now - port.captured_at)
                )
            if port.is_opaque(now) and not port.is_opaque_logged:
                port.is_opaque_logged = True
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
    """Return a port's name in the log."""
    return f"port {number}" if number else "every port"


def _opacity(number: int, protocol: str) -> str:
    if protocol == OtherProtocol.TLS:
        return f"{port_name(number)} carries TLS: nothing is judged there; see {PAGE}#tls"
    carried = "something that is not Kafka" if protocol == OtherProtocol.NOISE else protocol
    return f"{port_name(number)} carries {carried}: nothing is judged there; see {PAGE}#other-protocols"


@dataclass(slots=True)
class _PortTls:
    """What was logged of a port: for each outcome the number of connections, and the time in seconds."""

    framed: int = 0
    framed_at: float = 0.0
    logged: dict[TlsOutcome, tuple[int, float]] = field(default_factory=dict)

    def is_news(self, outcome: TlsOutcome, count: int, now: float) -> bool:
        """Whether to log an outcome: it is the first, or it recurs and nothing was read for LATER."""
        if outcome not in self.logged:
            return True
        logged, logged_at = self.logged[outcome]
        is_old = now - max(logged_at, self.framed_at) >= LATER
        return outcome is not TlsOutcome.READ and count > logged and is_old


class TlsWatch:
    """Logs the outcomes of TLS connections, each when it is news. Without a key log there are none."""

    def __init__(self) -> None:
        self._ports: dict[int, _PortTls] = {}

    def check(self, ledgers: Mapping[int, Ledger], now: float) -> None:
        """Log the outcomes since the last call. `now` is in seconds of a steady clock."""
        for number, ledger in ledgers.items():
            port = self._ports.setdefault(number, _PortTls())
            if ledger.framed > port.framed:
                port.framed, port.framed_at = ledger.framed, now
            for outcome, count in sorted(ledger.tls.items()):
                if port.is_news(outcome, count, now):
                    port.logged[outcome] = count, now
                    _log_outcome(number, outcome, count)


def _log_outcome(number: int, outcome: TlsOutcome, connections: int) -> None:
    name = port_name(number)
    if outcome is TlsOutcome.READ:
        FEEDER_LOG.info("tls-read", port=number, message=f"{name}: TLS is read")
        return
    message = f"{name}: {UNREAD[outcome]}; see {TLS_PAGE}"
    FEEDER_LOG.warning("tls-not-read", port=number, outcome=outcome, connections=connections, message=message)


def nothing_published(path: Path, watched: Iterable[int], schemas: Schemas) -> str:
    """Explain in one line why nothing of a file was published, and which ports to watch instead."""
    named = ", ".join(map(str, watched))
    packets, found = _ports(path, schemas)
    if not packets:
        return f"{path} is empty: it holds no packet"
    if not found:
        return f"nothing was published: {path} holds no data on port {named}, and Kafka on no other port"
    ports = [port for port, _ in found.most_common(_NAMED)]
    return (
        f"nothing was published: {path} holds no data on port {named}; it has Kafka on port "
        f"{', '.join(map(str, ports))}: use --ports {','.join(map(str, ports))}"
    )


def _ports(path: Path, schemas: Schemas) -> tuple[int, Counter[int]]:
    """Return the number of packets of a file, and of its requests by port."""
    tracker = ColumnarTracker(schemas, ports=(), run=0, secret=secrets.token_bytes())
    packets, requests = 0, Counter[int]()
    with open_capture(path) as capture:
        for batch in capture.batches():
            packets += batch.size
            requests.update(_requests(tracker.feed(batch).records()))
    requests.update(_requests(tracker.finish().records()))
    return packets, requests


def _requests(records: Iterable[Record]) -> list[int]:
    return [int(record.server.rpartition(":")[2]) for record in records if record.kind is Kind.REQUEST]
