"""Fixtures of several rooms."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import hypothesis
import pytest

from streaming.broker.jars import jars
from streaming.log import configure_log
from tests.examples import examples

# The time of an example depends more on the load of the machine than on the code.
hypothesis.settings.register_profile("kipwatch", examples(100))
hypothesis.settings.load_profile("kipwatch")


def pytest_configure() -> None:
    """Name a file for the main module of a parallel worker: without one PySpark takes it for a doctest.

    Log as the commands do.
    """
    configure_log()
    main = sys.modules["__main__"]
    if not hasattr(main, "__file__"):
        main.__file__ = __file__


@pytest.fixture(scope="session")
def kafka_clients_jar() -> Path:
    """The kafka-clients jar of the broker's release, fetched first if the cache lacks it."""
    return next(jar for jar in jars("broker") if jar.name.startswith("kafka-clients-"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark tests that use the jar as jvm: fetching it needs Java. Group the tests for --dist loadgroup.

    A file is a group, since its tests share brokers. All that capture are one: they would burden each other.
    It is done first, before pytest-xdist reads the groups.
    """
    for item in items:
        if "kafka_clients_jar" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)
        captures = item.get_closest_marker("capture") is not None
        item.add_marker(pytest.mark.xdist_group("capture" if captures else str(item.path)))
