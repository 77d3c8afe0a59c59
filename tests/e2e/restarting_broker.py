"""A broker that is stopped, killed and frozen, and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from streaming.broker import child_guard
from streaming.broker.embedded import EmbeddedBroker
from tests.e2e.process_tree import jvms

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
        self._await_response(self._start())

    def end(self) -> None:
        """Shut down in order, for good."""
        child_guard.stop(self._process)

    def killed(self) -> None:
        """Die without a word, and start again."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._await_response(self._start())

    def frozen(self) -> None:
        """Stop responding for longer than a session lasts."""
        self._signal(signal.SIGSTOP)
        try:
            time.sleep(FROZEN)
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in jvms(self._process.pid):
            os.kill(process, number)
