"""A capture that a feeder of its own publishes whole."""

from __future__ import annotations

from pathlib import Path

from streaming.broker.ports import HOST
from streaming.demo.road import Child

FED = 150.0


def feed_capture(capture: Path, log: Path, *flags: str) -> None:
    """Publish a capture with `kipwatch feed`, whose metrics page takes any free port. Fails with its log."""
    command = ["feed", str(capture), "--feeder-metrics-address", f"{HOST}:0", *flags]
    with Child(command, log) as feeder:
        status = feeder.wait(FED)
    assert status == 0, log.read_text()
