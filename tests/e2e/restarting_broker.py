"""A broker that is stopped, killed and frozen, and comes back."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from streaming.broker import child_guard
from streaming.broker.embedded import EmbeddedBroker
from tests.e2e.process_tree import frozen, jvms, send_signal

FROZEN = 50.0
"""Longer than a session timeout of 45 s: the coordinator forgets the members."""


class RestartingBroker(EmbeddedBroker):
    """A broker that goes away and comes back with its data, at the same address."""

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = super()._start()
        return self._process

    def stopped(self) -> None:
        """Shut down in order, and start again."""
        child_guard.stop(self._process)
        self._restart()

    def end(self) -> None:
        """Shut down in order, for good."""
        child_guard.stop(self._process)

    def killed(self) -> None:
        """Die without a word, and start again."""
        send_signal(jvms(self._process.pid), signal.SIGKILL)
        self._process.wait()
        self._restart()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keep the port open and respond to nothing."""
        with frozen(jvms(self._process.pid)):
            yield

    def forgot_its_members(self) -> None:
        """Stop responding for longer than a session lasts."""
        with self.frozen():
            time.sleep(FROZEN)

    def _restart(self) -> None:
        process = self._start()
        self._undo.callback(child_guard.stop, process)
        self._await_response(process)
