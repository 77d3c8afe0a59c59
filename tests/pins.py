"""The pinned jars, and those of other releases, from a cache beside theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from streaming.broker import jars


def dependencies(pins: Path) -> list[ElementTree.Element]:
    """Return what a list of jars pins."""
    return ElementTree.parse(pins).getroot().findall("dependencies/dependency")


@contextmanager
def pinned_by(pins: Path) -> Iterator[None]:
    """Let another list of jars hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "PINS", pins)
        yield
