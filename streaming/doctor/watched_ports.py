"""Examines the watched ports: captures for some seconds, and says what passes on each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from decoders.tls.outcome import Outcome
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger
from decoders.wire.other_protocol import OtherProtocol
from streaming.doctor.diagnosis import Diagnosis, Verdict
from streaming.doctor.key_logs import ExaminedKeyLogs
from streaming.feeder import tls_watch
from streaming.feeder.capture import CaptureError, InterfaceCapture
from streaming.feeder.excluded_traffic import ExcludedTraffic
from streaming.feeder.port_watch import ANY_PORT, PAGE, port_name
from streaming.settings.configuration import Configuration
from streaming.settings.release import load_schemas

SECONDS: Final = 5.0
"""How long packets are captured."""
_POLL_SECONDS: Final = 0.2
_RING_BYTES: Final = 8 << 20
_NEEDS_CHANGE: Final = frozenset({Outcome.NO_KEY, Outcome.UNSUPPORTED_SUITE})
"""Outcomes that time does not mend."""


def watched_ports(configuration: Configuration, seconds: float = SECONDS) -> Iterator[Diagnosis]:
    """Yield a line for each key log, and for each watched port, or for all if none is named."""
    schemas = load_schemas(configuration.schemas)
    with ExaminedKeyLogs([Path(name) for name in configuration.tls_keylog]) as key_logs:
        tracker = ColumnarTracker(
            schemas,
            ports=configuration.ports,
            run=0,
            max_frame=configuration.max_request_bytes,
            key_log=key_logs.key_log,
        )
        # What is compiled now does not cost seconds of the capture.
        tracker.feed(PacketBatch.of([]))
        try:
            _capture(configuration, tracker, key_logs, seconds)
        except CaptureError as error:
            yield Diagnosis(Verdict.NO, "watched ports", str(error))
            return
        yield from key_logs.diagnoses()
    where = f"on {', '.join(configuration.interface)} in {seconds:.0f} s"
    for port, ledger in (tracker.port_ledgers or {ANY_PORT: tracker.ledger}).items():
        yield _seen(port_name(port), ledger, where)


def _capture(
    configuration: Configuration, tracker: ColumnarTracker, key_logs: ExaminedKeyLogs, seconds: float
) -> None:
    """Feed the tracker with what passes. Raises CaptureError."""
    networks = configuration.excluded_networks
    excluded = ExcludedTraffic(networks)
    with InterfaceCapture(configuration.interface, configuration.ports, _RING_BYTES, networks) as capture:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            packets = capture.packets(_POLL_SECONDS)
            key_logs.poll()
            tracker.feed(excluded.without_excluded(packets, tracker.ledger))
    tracker.finish()


def _seen(name: str, ledger: Ledger, where: str) -> Diagnosis:
    verdict, detail = _of_kafka(ledger, where) or _of_other(ledger) or _of_nothing(ledger, where)
    return Diagnosis(verdict, name, detail)


def _of_kafka(ledger: Ledger, where: str) -> tuple[Verdict, str] | None:
    """What is said of a port that carries frames, or TLS beside a key log."""
    read = ledger.tls[Outcome.READ]
    unread = next((each for each, _ in ledger.tls.most_common() if each is not Outcome.READ), None)
    detail = f"{ledger.framed} bytes of Kafka {where}{f', {read} TLS connections read' if read else ''}"
    if unread is None:
        return (Verdict.YES, detail) if ledger.framed else None
    reason = f"{tls_watch.UNREAD[unread]} ({ledger.tls[unread]} connections); see {tls_watch.PAGE}"
    if ledger.framed:
        return Verdict.NOTE, f"{detail}; {reason}"
    return Verdict.NO if unread in _NEEDS_CHANGE else Verdict.NOTE, reason


def _of_other(ledger: Ledger) -> tuple[Verdict, str] | None:
    if ledger.opaque[OtherProtocol.TLS]:
        remedy = "name a key log as `tls_keylog`, or take it out of `ports`"
        return Verdict.NO, f"carries TLS: nothing is judged there; {remedy}; see {PAGE}#tls"
    if ledger.opaque:
        remedy = f"correct `ports`; see {PAGE}#other-protocols"
        return Verdict.NOTE, f"carries something that is not Kafka: {remedy}"
    return None


def _of_nothing(ledger: Ledger, where: str) -> tuple[Verdict, str]:
    if ledger.captured:
        return Verdict.NOTE, f"{ledger.captured} bytes {where}, too few to recognise: run the doctor again"
    remedy = f"if clients talk now, correct `ports` or `interface`; see {PAGE}#nothing-arrives"
    return Verdict.NOTE, f"nothing {where}: {remedy}"
