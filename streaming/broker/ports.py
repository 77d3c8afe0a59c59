"""Free ports of loopback, and the ports of the embedded broker."""

import contextlib
import random
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streaming.user_error import UserError

HOST = "127.0.0.1"
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 10_000
"""Below it well-known services listen."""
_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class Ports:
    """One port for each listener."""

    watched: int
    """The listener of real clients, the only one whose traffic is captured."""
    internal: int
    """The listener of kipwatch's own clients and of the broker itself."""
    controller: int
    """The KRaft listener, between the two roles of the one process."""


def reserve(watched: int, internal: int) -> Ports:
    """Choose the ports of a broker; 0 means any free one. Raises `UserError` if a port is in use."""
    # Hold each port until the last is chosen, so that they differ.
    with contextlib.ExitStack() as held:
        return Ports(*(_bind(held, port) if port else _find(held) for port in (watched, internal, 0)))


def free_ports(count: int) -> list[int]:
    """Return `count` different ports on which nothing listens."""
    with contextlib.ExitStack() as held:
        return [_find(held) for _ in range(count)]


def cannot_listen(port: int, error: OSError) -> UserError:
    """Return the error of a server whose port was taken after it had been chosen."""
    return UserError(f"cannot listen on port {port}: {error.strerror}; choose another port")


def _find(held: contextlib.ExitStack) -> int:
    """Return a free port below the ephemeral range, or any free port if there is none.

    The kernel may give a port of the ephemeral range to a client before we listen on it.
    """
    stable = range(_LOWEST, int(_EPHEMERAL_RANGE.read_text().split()[0]))
    for port in random.sample(stable, min(_TRIES, len(stable))):
        with contextlib.suppress(UserError):
            return _bind(held, port)
    return _bind(held, 0)


def _bind(held: contextlib.ExitStack, port: int) -> int:
    probe = held.enter_context(socket.socket())
    # As the broker does: a port with old connections in TIME_WAIT is free to listen on.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((HOST, port))
        # With SO_REUSEADDR two sockets may bind a port, as long as neither listens.
        probe.listen()
    except OSError as error:
        remedy = "stop what listens there, or choose another port"
        raise UserError(f"port {port} cannot be used ({error.strerror}): {remedy}") from error
    bound: int = probe.getsockname()[1]
    return bound
