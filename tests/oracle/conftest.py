"""Kafka's own classes, those of the pinned release."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from decoders.schema.table import read_jar
from streaming.broker import jars
from tests.oracle.judge import Oracle
from tests.pins import pinned_by

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if {"oracle", "feature_oracle"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.jvm)


@pytest.fixture(scope="session")
def oracle(kafka_clients_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Kafka's own classes, of the release whose schemas are committed."""
    pinned, committed = read_jar(kafka_clients_jar)["release"], default_schemas().release
    assert pinned == committed, f"the pinned jars are of {pinned}, the table of {committed}"
    return Oracle(jars.jars("broker"), tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="session")
def feature_jars() -> list[Path]:
    """The jars of the last release whose tests are published, from a cache beside that of the pinned ones."""
    with pinned_by(FOLDER / "ivy.xml"):
        return jars.jars("broker")


@pytest.fixture(scope="session")
def feature_jar(feature_jars: list[Path]) -> Path:
    """The jar of Kafka's tests, with the schemas of their messages."""
    return next(jar for jar in feature_jars if jar.stem.endswith("-test"))


@pytest.fixture(scope="session")
def feature_oracle(feature_jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """The classes of those messages. They come before the release's own, which they do not fit."""
    return Oracle([*feature_jars, *jars.jars("broker")], tmp_path_factory.mktemp("feature_oracle"))
