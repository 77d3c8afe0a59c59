"""One embedded broker for the tests that only talk to it."""

from collections.abc import Iterator

import pytest

from streaming.broker.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running
