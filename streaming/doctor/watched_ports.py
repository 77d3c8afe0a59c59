"""Examines the watched ports: captures for some seconds, and says what passes on each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger
from decoders.wire.other_protocol import OtherProtocol
from streaming.doctor.diagnosis import Diagnosis, Verdict
from streaming.feeder.capture import CaptureError, InterfaceCapture
from streaming.feeder.excluded_traffic import ExcludedTraffic
from streaming.feeder.port_watch import PAGE
from streaming.settings.configuration import Configuration
from streaming.settings.release import load_schemas

SECONDS: Final = 5.0
"""How long packets are captured."""
_POLL_SECONDS: Final = 0.2
_RING_BYTES: Final = 8 << 20


def watched_ports(configuration: Configuration, seconds: float = SECONDS) -> Iterator[Diagnosis]:
    """Yield a line for each watched port, or one line for all if none is named."""
    schemas = load_schemas(configuration.schemas)
    tracker = ColumnarTracker(
        schemas, ports=configuration.ports, run=0, max_frame=configuration.max_request_bytes
    )
    # What is compiled now does not cost seconds of the capture.
    tracker.feed(PacketBatch.of([]))
    interfaces, networks = configuration.interface, configuration.excluded_networks
    excluded = ExcludedTraffic(networks)
    try:
        with InterfaceCapture(interfaces, configuration.ports, _RING_BYTES, networks) as capture:
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at:
                packets = capture.packets(_POLL_SECONDS)
                tracker.feed(excluded.without_excluded(packets, tracker.ledger))
    except CaptureError as error:
        yield Diagnosis(Verdict.NO, "watched ports", str(error))
        return
    tracker.finish()
    where = f"on {', '.join(interfaces)} in {seconds:.0f} s"
    if not tracker.port_ledgers:
        yield _seen("every port", tracker.ledger, where)
    for port, ledger in tracker.port_ledgers.items():
        yield _seen(f"port {port}", ledger, where)


def _seen(name: str, ledger: Ledger, where: str) -> Diagnosis:
    if ledger.framed:
        return Diagnosis(Verdict.YES, name, f"{ledger.framed} bytes of Kafka {where}")
    if ledger.opaque[OtherProtocol.TLS]:
        detail = f"carries TLS: nothing is judged there; take it out of `ports`, or see {PAGE}#tls"
        return Diagnosis(Verdict.NO, name, detail)
    if ledger.opaque:
        detail = f"carries something that is not Kafka: correct `ports`; see {PAGE}#other-protocols"
        return Diagnosis(Verdict.NOTE, name, detail)
    if ledger.captured:
        detail = f"{ledger.captured} bytes {where}, too few to recognise: run the doctor again"
        return Diagnosis(Verdict.NOTE, name, detail)
    remedy = f"if clients talk now, correct `ports` or `interface`; see {PAGE}#nothing-arrives"
    return Diagnosis(Verdict.NOTE, name, f"nothing {where}: {remedy}")
