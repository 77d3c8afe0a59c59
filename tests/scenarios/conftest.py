"""One broker for all scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.scenarios.stage import Stage, raised_stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage, raised once."""
    with raised_stage(tmp_path_factory.mktemp("scenarios")) as raised:
        yield raised


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Tests that use the stage need Java."""
    for item in items:
        if "stage" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)
