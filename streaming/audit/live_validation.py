"""Live validation: a second process validates samples of batches, one at a time.

A batch pays only for the sample, a bounded part of its reports. No failure here reaches the query.

| state | ends | next |
|---|---|---|
| waiting | when validations would take at most SHARE of the batches' time, at the next batch | validating |
| validating | when the validator has replied | waiting |
| validating | when the validator ends, or does not reply within LONGEST: it is ended | waiting |
| unavailable | never; it begins if the extra [audit] is not installed, or when the query ends | |

The validator is started by the first validation, and again after it has ended. Its costs decide when the
next validation is due.
"""

from __future__ import annotations

import enum
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from expectations.judging.finding import Finding
from streaming.judging.changes import Changes
from streaming.judging.report import Report, checks_of, pack_report
from streaming.log import QUERY_LOG
from streaming.settings.configuration import Configuration

SHARE: Final = 0.01
"""Validations take at most this share of the batches' time, in seconds of a processor."""
FIRST_AFTER: Final = 60.0
"""Seconds of batches before the first validation: a short run pays for none."""
AFTER_FAILURE: Final = 10.0
"""Seconds of a processor that are counted for a validation whose validator ended."""
LONGEST: Final = 1_800.0
"""Seconds until a validator is ended. On a busy machine it gets little of a processor."""
ENDED_WITHIN: Final = 5.0
"""Seconds that the thread of a validation may take to see that its validator was ended."""
_LIBRARY: Final = "great_expectations"
_VALIDATOR: Final = "streaming.audit.validator"
"""A program: importing it would load what only it needs."""
_ROOT: Final = Path(__file__).parents[2]
MOST: Final = 1_000
"""Maximum numbers of findings, of uses, and of changes of each kind in a sample."""
ALL_LISTENERS: Final = ""

_Sampled = TypeVar("_Sampled")
Successes = dict[tuple[str, str], bool]
"""Whether an expectation is met, by suite and expectation."""
Demands = dict[tuple[str, str], str]
"""What the expectations of policies demand, in the words of their author, by suite and expectation."""


class ValidationOutcome(enum.StrEnum):
    """The outcome of a validation. UNAVAILABLE is counted once, if the extra [audit] is not installed."""

    DONE = "done"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


class Reply(NamedTuple):
    """The validator's answer to a sample, and the seconds of a processor that it took.

    `problem` says in a line why something could not be validated; it is empty if all was. `policies` says
    what each expectation of a policy demands. The class is here because pickle finds none in a module that
    runs as a program.
    """

    successes: Successes
    seconds: float
    problem: str
    policies: Demands


class Shows(Protocol):
    """Shows the results; called from the thread of the validation."""

    def show_expectations(self, successes: Successes, policies: Demands) -> None:
        """Show whether each expectation is met, and what those of policies demand."""

    def count_validation(self, outcome: ValidationOutcome, seconds: float = 0.0) -> None:
        """Count a validation, and the seconds of a processor that it took."""


class LiveValidation:
    """Validates a sample when one is due."""

    def __init__(
        self, configuration: Configuration, shows: Shows, batch_seconds: Callable[[], float]
    ) -> None:
        """`batch_seconds` returns how long all batches have taken together."""
        self._configuration, self._shows, self._batch_seconds = configuration, shows, batch_seconds
        self._is_available = find_spec(_LIBRARY) is not None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._due_at = FIRST_AFTER
        self._starting = threading.Lock()
        if not self._is_available:
            shows.count_validation(ValidationOutcome.UNAVAILABLE)
            QUERY_LOG.info("no-live-validation", line="for it install kipwatch with the extra [audit]")

    def is_due(self) -> bool:
        """Whether the next batch is to be sampled."""
        if not self._is_available or (self._thread is not None and self._thread.is_alive()):
            return False
        return self._batch_seconds() >= self._due_at

    def begin(self, reports: Sequence[Report], findings: Sequence[Finding]) -> None:
        """Sample a batch and begin to validate it."""
        # Packed here: the compressor is not for several threads, and the caller's own thread uses it, too.
        sample = pack_report(sample_of(reports, findings))
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

    def _validate(self, sample: bytes) -> None:
        began = self._batch_seconds()
        try:
            reply = self._ask(sample)
        # The query logs any failure of the validator, and goes on.
        except Exception as error:
            self._end()
            if self._is_available:
                problem = f"the validator ended: {str(error) or type(error).__name__}"
                self._record(Reply({}, AFTER_FAILURE, problem, {}))
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
            [sys.executable, "-m", _VALIDATOR],
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
        self._shows.show_expectations(reply.successes, reply.policies)
        self._shows.count_validation(
            ValidationOutcome.FAILED if reply.problem else ValidationOutcome.DONE, reply.seconds
        )
        failed = [f"{suite}/{name}" for (suite, name), success in reply.successes.items() if not success]
        if reply.problem:
            QUERY_LOG.warning("not-validated", line=reply.problem)
        if failed:
            QUERY_LOG.warning("expectations-not-met", expectations=sorted(failed))


def sample_of(reports: Sequence[Report], findings: Sequence[Finding]) -> Report:
    """Return a report of bounded size with rows for all tables, from the reports of a batch.

    Its only time of capture is the latest.
    """
    latest = max((tenth for report in reports for tenth in report.captured), default=0)
    return Report(
        0,
        findings=drawn([findings], MOST),
        checks_at={ALL_LISTENERS: checks_of(reports)},
        captured={latest: 1},
        usage=drawn((report.usage for report in reports), MOST),
        changes=Changes(
            drawn((report.changes.connections for report in reports), MOST),
            drawn((report.changes.members for report in reports), MOST),
            drawn((report.changes.brokers for report in reports), MOST),
        ),
    )


def drawn(parts: Iterable[Sequence[_Sampled]], most: int) -> list[_Sampled]:
    """Draw from all parts evenly, so that the first buckets do not fill the sample."""
    rows = list(chain.from_iterable(parts))
    return rows if len(rows) <= most else random.sample(rows, most)
