"""A feeder in a process of its own, and its log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import pytest

from decoders.codec.request import read_request
from decoders.frame.record import Kind, Record
from decoders.schema.registry import default_schemas
from streaming.feeder.capture import can_capture
from streaming.feeder.feeder import DRAIN_SECONDS, FLUSH_SECONDS
from tests.streaming.broker.request_log import LoggedRequest
from tests.waiting import until

FRAMES = "kipwatch.frames"
PATIENCE = 120.0
"""Seconds. A start takes 1 s, or 30 s if nothing was compiled before."""
Request = tuple[int, int, int | None, str]

Test = TypeVar("Test", bound=Callable[..., None])


def captures(test: Test) -> Test:
    """Mark a test that needs permission to capture, and skip it without."""
    skip = pytest.mark.skipif(not can_capture(), reason="not permitted to capture packets")
    return cast(Test, pytest.mark.capture(skip(test)))


class LiveFeeder:
    """`kipwatch feed` on the loopback interface. A context manager that stops it."""

    def __init__(self, log: Path, ports: Iterable[int], bootstrap: str, *flags: str) -> None:
        command = [sys.executable, "-m", "streaming.commands.main", "feed", "--interface", "lo"]
        command += ["--ports", ",".join(map(str, ports)), "--bootstrap", bootstrap]
        command += ["--feeder-metrics-address", "127.0.0.1:0", *flags]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> LiveFeeder:
        try:
            self.wait_for("ready")
        except AssertionError:
            self.kill()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the events of a name that the feeder has logged so far."""
        lines = [line for line in self._log.read_text().splitlines(keepends=True) if line.startswith("{")]
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [fields for fields in events if fields["feeder"] == event]

    def wait_for(self, event: str) -> dict[str, Any]:
        """Wait until the feeder has logged an event. Returns the event."""

        def logged() -> list[dict[str, Any]]:
            found = self.logged(event)
            assert found or self._process.poll() is None, self._log.read_text()
            return found

        return until(logged, PATIENCE, every=0.05)[-1]

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> dict[str, Any]:
        """Stop it. Returns its last event."""
        if self._process.poll() is None:
            self._process.terminate()
            # Half as long again as the feeder may take to read what was captured, and to flush.
            self._process.wait(1.5 * (DRAIN_SECONDS + FLUSH_SECONDS))
        return (self.logged("stopped") or [{}])[-1]


def assert_same_requests(records: Sequence[Record], lines: Iterable[LoggedRequest], *, but: str = "") -> None:
    """Compare the topic with the broker's log, both without the requests of one client.

    The broker logs a request when its response is sent: the last one of a client that closes may be missing.
    """
    in_log = logged(line for line in lines if not but or line.client_id != but)
    requests = sorted((one for one in records if one.kind is Kind.REQUEST), key=lambda one: one.sequence)
    last = {request.connection: request.sequence for request in requests}
    paired = {one.paired_sequence for one in records if one.kind is Kind.RESPONSE} - {*last.values()}
    unseen = in_log - requests_in(records)
    unlogged = requests_in(request for request in requests if request.sequence in paired) - in_log
    assert (unseen, unlogged) == (Counter(), Counter()), f"unseen: {unseen}, unlogged: {unlogged}"
    assert in_log


def logged(lines: Iterable[LoggedRequest]) -> Counter[Request]:
    """Return the requests of the broker's log."""
    return Counter((line.api_key, line.api_version, line.correlation_id, line.client_id) for line in lines)


def requests_in(records: Iterable[Record]) -> Counter[Request]:
    """Return the requests among records, by the same fields."""
    requests = [
        read_request(default_schemas(), record.frame, cut=record.is_cut)
        for record in records
        if record.kind is Kind.REQUEST
    ]
    return Counter(
        (request.api_key, request.api_version, request.correlation_id, request.client_id or "")
        for request in requests
    )
