"""Live validation: has samples of batches validated beside the query, one at a time.

A batch pays for its sample alone. The next one is due when the batches since have taken so long that what the
last validation cost is at most SHARE of it.
"""

from __future__ import annotations

import enum
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from expectations.judging.finding import Finding
from streaming.judging.report import Report, pack_report
from streaming.log import QUERY_LOG
from streaming.settings.configuration import Configuration
from streaming.validation import validator
from streaming.validation.reply import Reply, Successes
from streaming.validation.sample import sample_of

SHARE: Final = 0.01
"""Of the time that batches take: seconds of a processor that validations may."""
FIRST_AFTER: Final = 60.0
"""Seconds of batches before the first validation: a short run pays for none."""
AFTER_FAILURE: Final = 10.0
"""Seconds of a processor that a validation counts as whose validator ended."""
LONGEST: Final = 1_800.0
"""Seconds until a validator is ended. On a busy machine it gets little of a processor."""
ENDED_WITHIN: Final = 5.0
"""Seconds that the thread of a validation may take to see that its validator was ended."""
_LIBRARY: Final = "great_expectations"
_ROOT: Final = Path(__file__).parents[2]


class Outcome(enum.StrEnum):
    """What became of a validation. UNAVAILABLE is counted once, if the extra [audit] is not installed."""

    DONE = "done"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


class Shows(Protocol):
    """What shows the results; called from a thread of its own."""

    def show_expectations(self, successes: Successes) -> None:
        """Show whether each expectation is met."""

    def count_validation(self, outcome: Outcome, seconds: float = 0.0) -> None:
        """Count a validation, and the seconds of a processor that it took."""


class LiveValidation:
    """Validates a sample when it is due. Nothing that goes wrong here reaches the query."""

    def __init__(
        self, configuration: Configuration, shows: Shows, batch_seconds: Callable[[], float]
    ) -> None:
        """`batch_seconds` tells how long all batches have taken up to now."""
        self._configuration, self._shows, self._batch_seconds = configuration, shows, batch_seconds
        self._is_available = find_spec(_LIBRARY) is not None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._due_at = FIRST_AFTER
        self._starting = threading.Lock()
        if not self._is_available:
            shows.count_validation(Outcome.UNAVAILABLE)
            QUERY_LOG.info("no-live-validation", line="for it install kipwatch with the extra [audit]")

    def is_due(self) -> bool:
        """Whether the next batch is to be sampled."""
        if not self._is_available or (self._thread is not None and self._thread.is_alive()):
            return False
        return self._batch_seconds() >= self._due_at

    def begin(self, reports: Sequence[Report], findings: Sequence[Finding]) -> None:
        """Sample a batch and begin to validate it."""
        sample = sample_of(reports, findings)
        self._thread = threading.Thread(
            target=self._validate, args=(sample,), name="kipwatch-validation", daemon=True
        )
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until the validation under way has ended."""
        if self._thread is not None:
            self._thread.join(seconds)

    def close(self) -> None:
        """End the validator, and with it the validation under way."""
        with self._starting:
            self._is_available = False
        self._end()
        self.wait(ENDED_WITHIN)

    def _validate(self, sample: Report) -> None:
        began = self._batch_seconds()
        try:
            reply = self._ask(pack_report(sample))
        # Whatever is wrong with the validator or its answer, the query goes on and says so.
        except Exception as error:
            self._end()
            if self._is_available:
                problem = f"the validator ended: {str(error) or type(error).__name__}"
                self._record(Reply({}, AFTER_FAILURE, problem))
                self._due_at = began + AFTER_FAILURE / SHARE
        else:
            self._record(reply)
            self._due_at = began + reply.seconds / SHARE

    def _ask(self, sample: bytes) -> Reply:
        with self._starting:
            if not self._is_available:
                raise EOFError("the query ends")
            process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(LONGEST, process.kill)
        timer.start()
        try:
            pickle.dump(sample, process.stdin)
            process.stdin.flush()
            reply: Reply = pickle.load(process.stdout)
        finally:
            timer.cancel()
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        # A wheel holds our packages in a folder that other processes do not search.
        searched = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", validator.__name__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(searched)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in the terminal is for the query.
            start_new_session=True,
        )
        assert process.stdin is not None
        pickle.dump(self._configuration, process.stdin)
        return process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _record(self, reply: Reply) -> None:
        self._shows.show_expectations(reply.successes)
        self._shows.count_validation(Outcome.FAILED if reply.problem else Outcome.DONE, reply.seconds)
        failed = [f"{suite}/{name}" for (suite, name), success in reply.successes.items() if not success]
        if reply.problem:
            QUERY_LOG.warning("not-validated", line=reply.problem)
        if failed:
            QUERY_LOG.warning("expectations-not-met", expectations=sorted(failed))
