"""Fixtures of several rooms."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import hypothesis
import pytest

from streaming.broker.jars import jars
from streaming.log import configure_log
from streaming.process import make_collections_rare
from tests.examples import examples

# The time of an example depends more on the load of the machine than on the code.
hypothesis.settings.register_profile("kipwatch", examples(100))
hypothesis.settings.load_profile("kipwatch")


def pytest_configure() -> None:
    """Name a file for the main module of a parallel worker: without one PySpark takes it for a doctest.

    Log as the commands do, and look for cycles as rarely: a test session has many objects that live long.
    """
    configure_log()
    make_collections_rare()
    main = sys.modules["__main__"]
    if not hasattr(main, "__file__"):
        main.__file__ = __file__


@pytest.fixture(scope="session")
def kafka_clients_jar() -> Path:
    """The kafka-clients jar of the broker's release, fetched first if the cache lacks it."""
    return next(jar for jar in jars("broker") if jar.name.startswith("kafka-clients-"))


def pytest_collection_finish() -> None:
    """Leave what was collected to no further look for cycles."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Drop what a file's tests leave in cycles: a producer would log into the output of others."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the jar as jvm: fetching it needs Java. Begin with files that have slow tests."""
    for item in items:
        if "kafka_clients_jar" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)
    # A worker that began a slow file last would leave the others idle.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
