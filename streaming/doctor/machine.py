"""Examines this machine: rights, users, interfaces, the checkpoint, the clock, key logs, watched ports.

Most examinations ask the kernel or the file system. For the watched ports packets are captured for some
seconds, as a feeder would; key logs are followed meanwhile, so that TLS can be read.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from decoders.tls.outcome import TlsOutcome
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.frame_detector import OtherProtocol
from decoders.wire.ledger import Ledger
from streaming.doctor import Answer, Diagnosis
from streaming.feeder.capture import CaptureError, InterfaceCapture, can_capture
from streaming.feeder.key_log_files import FollowedKeyLogs
from streaming.feeder.port_watch import ANY_PORT, PAGE, TLS_PAGE, UNREAD, port_name
from streaming.feeder.unwatched_traffic import ExcludedTraffic
from streaming.process import forbid_core_dumps
from streaming.settings.checkpoint_folder import local_folder, why_unusable
from streaming.settings.configuration import Configuration
from streaming.settings.release import load_schemas

_TIMEX_BYTES: Final = 512
"""At least the size of struct timex, which differs between processors."""
_TIME_ERROR: Final = 5
"""Of sys/timex.h: the state of an unsynchronised clock."""
_FLAG_UP: Final = 1
"""Of linux/if.h."""
_ANSWERS: Final = {"key-log-read": Answer.YES, "key-log-unreadable": Answer.NO}
"""The answers for events of a key log. All other events are worth a look."""
SECONDS: Final = 5.0
"""How long to capture packets."""
_POLL_SECONDS: Final = 0.2
_RING_BYTES: Final = 8 << 20
_NEEDS_CHANGE: Final = frozenset({TlsOutcome.NO_KEY, TlsOutcome.UNSUPPORTED_SUITE})
"""Outcomes that only a person can mend."""


def capture_right() -> Diagnosis:
    """Examine whether this process may capture packets."""
    if can_capture():
        return Diagnosis(Answer.YES, "packet capture", "permitted")
    remedy = "run as root, or with the capability CAP_NET_RAW as deploy/systemd/kipwatch-feeder.service does"
    return Diagnosis(Answer.NO, "packet capture", f"not permitted: {remedy}")


def feeder_user(user: str) -> Diagnosis:
    """Examine whether the feeder can switch to the configured user."""
    name = f"user {user}"
    try:
        pwd.getpwnam(user)
    except KeyError:
        return Diagnosis(Answer.NO, name, "does not exist: create it, or correct `user`")
    if os.geteuid():
        return Diagnosis(Answer.NO, name, "only root can become it: run as root, or leave `user` out")
    return Diagnosis(Answer.YES, name, "exists")


def interface(name: str) -> Diagnosis:
    """Examine whether an interface exists and is up."""
    known = [each for _, each in socket.if_nameindex()]
    if name not in known:
        detail = f"does not exist: write one of {', '.join(known)} as `interface`"
        return Diagnosis(Answer.NO, f"interface {name}", detail)
    flags = int(Path(f"/sys/class/net/{name}/flags").read_text(), 16)
    if not flags & _FLAG_UP:
        return Diagnosis(Answer.NO, f"interface {name}", f"is down: ip link set {name} up")
    return Diagnosis(Answer.YES, f"interface {name}", "is up")


def checkpoint(configuration: Configuration) -> Diagnosis:
    """Examine whether the query can use or create its checkpoint, if that is in a local file system."""
    folder = local_folder(configuration)
    if folder is None:
        where = f"{configuration.checkpoint} is not on this machine"
        detail = f"{where}: only `kipwatch run` can tell whether Spark may use it"
        return Diagnosis(Answer.NOTE, "checkpoint", detail)
    if problem := why_unusable(folder):
        return Diagnosis(Answer.NO, "checkpoint", problem)
    if folder.exists():
        return _existing(folder)
    return Diagnosis(Answer.YES, "checkpoint", f"{folder} does not exist: `kipwatch run` creates it")


def _existing(folder: Path) -> Diagnosis:
    for directory, _, files in os.walk(folder, onerror=lambda _: None):
        for each in (Path(directory), *(Path(directory) / file for file in files)):
            wanted = os.R_OK | os.W_OK | os.X_OK if each.is_dir() else os.R_OK
            if not os.access(each, wanted):
                detail = f"this user may not use {each}: run as its owner, or chown --recursive {folder}"
                return Diagnosis(Answer.NO, "checkpoint", detail)
    batches = [int(path.name) for path in (folder / "offsets").glob("*") if path.name.isdecimal()]
    if batches:
        return Diagnosis(Answer.YES, "checkpoint", f"{folder} is readable, up to batch {max(batches)}")
    if any(folder.iterdir()):
        detail = f"{folder} holds no batch: if a query never used it, name an empty folder as `checkpoint`"
        return Diagnosis(Answer.NOTE, "checkpoint", detail)
    return Diagnosis(Answer.YES, "checkpoint", f"{folder} is empty")


def clock() -> Diagnosis:
    """Examine whether the kernel's clock is synchronised (man 2 adjtimex)."""
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state not in (-1, _TIME_ERROR):
        return Diagnosis(Answer.YES, "clock", "synchronised")
    detail = (
        "nothing is known to synchronise it: run chrony or systemd-timesyncd, since kipwatch orders "
        "what several feeders capture by their clocks"
    )
    return Diagnosis(Answer.NOTE, "clock", detail)


def watched_ports(configuration: Configuration, seconds: float = SECONDS) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each key log and each watched port, or of all ports together if none is named."""
    schemas = load_schemas(configuration.schemas)
    paths = [Path(name) for name in configuration.tls_keylog]
    if paths:
        forbid_core_dumps()
    of_key_logs: dict[Path, Diagnosis] = {}

    def note(event: str, path: Path, message: str) -> None:
        of_key_logs[path] = Diagnosis(_ANSWERS.get(event, Answer.NOTE), f"key log {path}", message)

    with closing(FollowedKeyLogs(paths, note)) as key_logs:
        key_logs.poll()
        tracker = ColumnarTracker(
            schemas,
            ports=configuration.ports,
            run=0,
            secret=secrets.token_bytes(),
            max_frame=configuration.max_request_bytes,
            key_log=key_logs.key_log if paths else None,
        )
        # Compile before the seconds of the capture begin.
        tracker.feed(PacketBatch.of([]))
        try:
            _capture(configuration, tracker, key_logs, seconds)
        except CaptureError as error:
            yield Diagnosis(Answer.NO, "watched ports", str(error))
            return
        yield from of_key_logs.values()
    where = f"on {', '.join(configuration.interface)} in {seconds:.0f} s"
    for port, ledger in (tracker.port_ledgers or {ANY_PORT: tracker.ledger}).items():
        yield _seen(port_name(port), ledger, where)


def _capture(
    configuration: Configuration, tracker: ColumnarTracker, key_logs: FollowedKeyLogs, seconds: float
) -> None:
    """Feed the tracker with live packets. Raises CaptureError."""
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
    answer, detail = _of_kafka(ledger, where) or _of_other(ledger) or _of_nothing(ledger, where)
    return Diagnosis(answer, name, detail)


def _of_kafka(ledger: Ledger, where: str) -> tuple[Answer, str] | None:
    """Judge a port that carries frames, or TLS beside a key log; None for other ports."""
    read = ledger.tls[TlsOutcome.READ]
    unread = next((each for each, _ in ledger.tls.most_common() if each is not TlsOutcome.READ), None)
    detail = f"{ledger.framed} bytes of Kafka {where}{f', {read} TLS connections read' if read else ''}"
    if unread is None:
        return (Answer.YES, detail) if ledger.framed else None
    reason = f"{UNREAD[unread]} ({ledger.tls[unread]} connections); see {TLS_PAGE}"
    if ledger.framed:
        return Answer.NOTE, f"{detail}; {reason}"
    return Answer.NO if unread in _NEEDS_CHANGE else Answer.NOTE, reason


def _of_other(ledger: Ledger) -> tuple[Answer, str] | None:
    if ledger.opaque[OtherProtocol.TLS]:
        remedy = "name a key log as `tls_keylog`, or take it out of `ports`"
        return Answer.NO, f"carries TLS: nothing is judged there; {remedy}; see {PAGE}#tls"
    if ledger.opaque:
        remedy = f"correct `ports`; see {PAGE}#other-protocols"
        return Answer.NOTE, f"carries something that is not Kafka: {remedy}"
    return None


def _of_nothing(ledger: Ledger, where: str) -> tuple[Answer, str]:
    if ledger.captured:
        return Answer.NOTE, f"{ledger.captured} bytes {where}, too few to recognise: run the doctor again"
    remedy = f"if clients talk now, correct `ports` or `interface`; see {PAGE}#nothing-arrives"
    return Answer.NOTE, f"nothing {where}: {remedy}"
