"""Examines this machine: the right to capture, users, interfaces, the folder of a checkpoint, the clock."""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import socket
from pathlib import Path
from typing import Final

from streaming.doctor.diagnosis import Diagnosis, Verdict
from streaming.feeder.capture import can_capture

_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<path>.*)", re.DOTALL)
_TIMEX_BYTES: Final = 512
"""More than the size of struct timex, which differs between processors."""
_TIME_ERROR: Final = 5
"""Of sys/timex.h: the state of a clock that nothing synchronises."""
_FLAG_UP: Final = 1
"""Of linux/if.h."""


def capture_right() -> Diagnosis:
    """Whether this process may capture packets."""
    if can_capture():
        return Diagnosis(Verdict.YES, "packet capture", "permitted")
    remedy = "run as root, or with the capability CAP_NET_RAW as deploy/systemd/kipwatch-feeder.service does"
    return Diagnosis(Verdict.NO, "packet capture", f"not permitted: {remedy}")


def feeder_user(user: str) -> Diagnosis:
    """Whether the feeder can switch to the user that is configured."""
    name = f"user {user}"
    try:
        pwd.getpwnam(user)
    except KeyError:
        return Diagnosis(Verdict.NO, name, "does not exist: create it, or correct `user`")
    if os.geteuid():
        return Diagnosis(Verdict.NO, name, "only root can become it: run as root, or leave `user` out")
    return Diagnosis(Verdict.YES, name, "exists")


def interface(name: str) -> Diagnosis:
    """Whether an interface exists and is up."""
    known = [each for _, each in socket.if_nameindex()]
    if name not in known:
        detail = f"does not exist: write one of {', '.join(known)} as `interface`"
        return Diagnosis(Verdict.NO, f"interface {name}", detail)
    flags = int(Path(f"/sys/class/net/{name}/flags").read_text(), 16)
    if not flags & _FLAG_UP:
        return Diagnosis(Verdict.NO, f"interface {name}", f"is down: ip link set {name} up")
    return Diagnosis(Verdict.YES, f"interface {name}", "is up")


def checkpoint(location: str) -> Diagnosis:
    """Whether the query can read and write its checkpoint, or create it. Asks only a local file system."""
    found = _SCHEME.fullmatch(location)
    if found and found["scheme"] != "file":
        detail = f"{location} is not on this machine: only `kipwatch run` can tell whether Spark may use it"
        return Diagnosis(Verdict.NOTE, "checkpoint", detail)
    folder = Path(re.sub("^//+", "/", found["path"]) if found else location)
    if folder.exists():
        return _existing(folder)
    parent = next(each for each in folder.absolute().parents if each.exists())
    if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK):
        return Diagnosis(Verdict.YES, "checkpoint", f"{folder} does not exist: `kipwatch run` creates it")
    detail = f"{folder} cannot be created: let this user write to {parent}, or correct `checkpoint`"
    return Diagnosis(Verdict.NO, "checkpoint", detail)


def _existing(folder: Path) -> Diagnosis:
    if not folder.is_dir():
        detail = f"{folder} is no folder: remove it, or correct `checkpoint`"
        return Diagnosis(Verdict.NO, "checkpoint", detail)
    for directory, _, files in os.walk(folder, onerror=lambda _: None):
        for each in (Path(directory), *(Path(directory) / file for file in files)):
            wanted = os.R_OK | os.W_OK | os.X_OK if each.is_dir() else os.R_OK
            if not os.access(each, wanted):
                detail = f"this user may not use {each}: run as its owner, or chown --recursive {folder}"
                return Diagnosis(Verdict.NO, "checkpoint", detail)
    batches = [int(path.name) for path in (folder / "offsets").glob("*") if path.name.isdecimal()]
    if batches:
        return Diagnosis(Verdict.YES, "checkpoint", f"{folder} is readable, up to batch {max(batches)}")
    if any(folder.iterdir()):
        detail = f"{folder} holds no batch: if a query never used it, name an empty folder as `checkpoint`"
        return Diagnosis(Verdict.NOTE, "checkpoint", detail)
    return Diagnosis(Verdict.YES, "checkpoint", f"{folder} is empty")


def clock() -> Diagnosis:
    """Whether the kernel knows its clock to be synchronised (man 2 adjtimex)."""
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state not in (-1, _TIME_ERROR):
        return Diagnosis(Verdict.YES, "clock", "synchronised")
    detail = (
        "nothing is known to synchronise it: run chrony or systemd-timesyncd, since kipwatch orders "
        "what several feeders capture by their clocks"
    )
    return Diagnosis(Verdict.NOTE, "clock", detail)
