"""What the tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import hypothesis
import pytest

from streaming.broker import jars

# How long an example takes says more of the machine's load than of the code.
hypothesis.settings.register_profile("kipwatch", deadline=None)
hypothesis.settings.load_profile("kipwatch")


@pytest.fixture(scope="session")
def kafka_clients_jar() -> Path:
    """The kafka-clients jar of the pinned release, fetched first where the cache lacks it."""
    return jars.kafka_clients_jar()


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Whatever reads the jar needs what fetches it: Java."""
    for item in items:
        if "kafka_clients_jar" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)
