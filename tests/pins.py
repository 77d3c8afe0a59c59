"""Jars of other releases than the pinned ones, from a cache beside theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.broker import jars


@contextmanager
def pinned_by(pins: Path) -> Iterator[None]:
    """Let another list of jars hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "PINS", pins)
        yield
