"""Kafka releases as jars, by version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.broker import jars
from tests.pins import pinned_by

PINS = Path(__file__).with_name("releases.xml")


@pytest.fixture(scope="session")
def release_jar() -> Callable[[str], Path]:
    """The kafka-clients jar of a release, from a cache beside that of the pinned jars."""

    def find(release: str) -> Path:
        with pinned_by(PINS):
            # The test's own pins have other names than those of the product.
            (jar,) = jars.jars(f"kafka-{release}")  # type: ignore[arg-type]
        return jar

    return find
