"""The ports of the embedded broker, all on loopback."""

import contextlib
import random
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streaming.user_error import UserError

HOST = "127.0.0.1"
_RANGE_OF_CLIENTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 10_000
"""Below it, services listen that are known by their ports."""
_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class Ports:
    """One port for each listener."""

    watched: int
    """Where real clients talk; the only listener whose traffic is captured."""
    internal: int
    """Where kipwatch's own clients and the broker itself talk."""
    controller: int
    """KRaft, between the two roles of the one process."""


def reserve(watched: int, internal: int) -> Ports:
    """Take the ports given, and free ones for 0. Raises `UserError` when one is in use."""
    # All are held until the last is known, so that none is given twice.
    with contextlib.ExitStack() as held:
        return Ports(*(_bind(held, port) if port else _find(held) for port in (watched, internal, 0)))


def free_ports(count: int) -> list[int]:
    """Find so many ports that nobody listens on."""
    with contextlib.ExitStack() as held:
        return [_find(held) for _ in range(count)]


def _find(held: contextlib.ExitStack) -> int:
    """Find a port that the kernel lends to nobody who connects, if there are such.

    Else it may be gone by the time it is listened on, or listened on again.
    """
    lasting = range(_LOWEST, int(_RANGE_OF_CLIENTS.read_text().split()[0]))
    for port in random.sample(lasting, min(_TRIES, len(lasting))):
        with contextlib.suppress(UserError):
            return _bind(held, port)
    return _bind(held, 0)


def _bind(held: contextlib.ExitStack, port: int) -> int:
    probe = held.enter_context(socket.socket())
    # As the broker will: a port whose old connections linger in TIME_WAIT is free to listen on.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
        # Two may bind a port in this way, if neither listens.
        probe.listen()
    except OSError as error:
        remedy = "end what listens there, or choose another"
        raise UserError(f"port {port} cannot be used ({error.strerror}): {remedy}") from error
    taken: int = probe.getsockname()[1]
    return taken
