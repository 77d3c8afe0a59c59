"""What tests see of the work of the columnar tracker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from decoders.frame.record import Record
from decoders.wire.connection import Connection
from decoders.wire.segment import Segment
from decoders.wire.tracker import Tracker


@pytest.fixture
def slow_path(monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """The segments that the scalar tracker processes."""
    given: list[Segment] = []
    process = Tracker.process

    def recorded(self: Tracker, segment: Segment, known: Connection | None = None) -> Iterator[Record]:
        given.append(segment)
        return process(self, segment, known)

    monkeypatch.setattr(Tracker, "process", recorded)
    return given
