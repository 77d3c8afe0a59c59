"""Machines of a network of their own: network namespaces with an address and a name each, on a bridge."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

NET: Final = "198.18.77"
"""A network for tests of devices (RFC 2544): no machine of a real network has such an address."""
_BECOME: Final = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'


class Network:
    """A hub with the bridge, and machines around it; nothing of it is seen outside. Needs root.

    Each machine knows the others by name. Its own name leads to its address, as on a real machine.
    """

    hub = f"{NET}.1"

    def __init__(self, folder: Path, machines: Sequence[str]) -> None:
        self.addresses = {name: f"{NET}.{number}" for number, name in enumerate(machines, 2)}
        self._hosts = folder / "hosts"

    def __enter__(self) -> Self:
        lines = [f"{address} {name}\n" for name, address in self.addresses.items()]
        self._hosts.write_text("".join(["127.0.0.1 localhost\n", *lines]))
        with ExitStack() as undo:
            hub = self._add(undo, "hub")
            _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
            _ip("-n", hub, "address", "add", f"{self.hub}/24", "dev", "bridge")
            _ip("-n", hub, "link", "set", "bridge", "up")
            for name, address in self.addresses.items():
                machine = self._add(undo, name)
                peer = ["type", "veth", "peer", "name", "eth0", "netns", machine]
                _ip("-n", hub, "link", "add", name, *peer)
                _ip("-n", hub, "link", "set", name, "master", "bridge", "up")
                _ip("-n", machine, "address", "add", f"{address}/24", "dev", "eth0")
                _ip("-n", machine, "link", "set", "eth0", "up")
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def on(self, machine: str, command: Sequence[str]) -> list[str]:
        """The command that runs another one on a machine, in the same process."""
        inside = ["ip", "netns", "exec", _namespace(machine), "unshare", "--uts", "--mount"]
        return [*inside, "sh", "-c", _BECOME, machine, str(self._hosts), *command]

    @contextmanager
    def at_hub(self) -> Iterator[None]:
        """Let this thread, and all that it starts, see the network from the hub."""
        own_path, hub_path = Path("/proc/thread-self/ns/net"), Path("/run/netns", _namespace("hub"))
        with own_path.open() as own, hub_path.open() as hub:
            _enter(hub.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())

    def _add(self, undo: ExitStack, name: str) -> str:
        namespace = _namespace(name)
        _ip("netns", "add", namespace)
        undo.callback(_ip, "netns", "delete", namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")
        return namespace


def _namespace(name: str) -> str:
    return f"kipwatch-{os.getpid()}-{name}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=10)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
