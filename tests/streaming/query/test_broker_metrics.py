"""What brokers advertise, as metrics: the latest of each broker, equal ones once, and bounded."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from decoders.schema.registry import default_schemas
from expectations.conversation.bodies import AdvertisedRanges
from streaming.judging.changes import BrokerShown
from streaming.query.broker_metrics import OFFER_LIMIT, BrokerMetrics

LIMIT = 3
IDS = {"versions", "features"}
OLD: AdvertisedRanges = ((3, 0, 12), (18, 0, 4))
NEW: AdvertisedRanges = ((3, 0, 13), (18, 0, 5))


class Page:
    """The metrics of brokers. `left_out` counts showings that are not shown."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.left_out = 0.0
        names = default_schemas().api_names
        self.brokers = BrokerMetrics(self.registry, names, LIMIT, self._leave_out)

    def show(self, broker: str, ranges: AdvertisedRanges, at: int = 1, *, version: int = 4) -> None:
        features = (("group.version", 0, 1),) if version >= 3 else ()
        self.brokers.show(BrokerShown("c", "L", broker, version, ranges, features, features), at)

    def rows(self, name: str) -> set[tuple[str, ...]]:
        return {
            tuple(sample.labels[label] for label in sorted(sample.labels) if label not in IDS)
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name
        }

    def offers(self) -> dict[str, str]:
        """The ID of the versions of each broker."""
        return {
            sample.labels["broker"]: sample.labels["versions"]
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "kipwatch_broker_info"
        }

    def _leave_out(self, count: float) -> None:
        self.left_out += count


@pytest.fixture
def page() -> Page:
    return Page()


def test_equal_advertisements_share_an_id_in_whatever_order(page: Page) -> None:
    page.show("a:9092", OLD)
    page.show("b:9092", tuple(reversed(OLD)))
    page.show("c:9092", NEW)
    offers = page.offers()
    assert offers["a:9092"] == offers["b:9092"] != offers["c:9092"]
    versions = page.rows("kipwatch_advertised_versions_info")
    assert versions == {
        ("Metadata", "12", "0"),
        ("ApiVersions", "4", "0"),
        ("Metadata", "13", "0"),
        ("ApiVersions", "5", "0"),
    }
    assert page.rows("kipwatch_advertised_features_info") == {
        ("group.version", "1", "supported", "0"),
        ("group.version", "1", "finalized", "0"),
    }


def test_an_upgraded_broker_shows_the_later_advertisement_alone(page: Page) -> None:
    page.show("a:9092", OLD, at=1)
    page.show("a:9092", NEW, at=3)
    page.show("a:9092", OLD, at=2)
    assert len(page.offers()) == 1
    assert ("Metadata", "13", "0") in page.rows("kipwatch_advertised_versions_info")
    assert ("Metadata", "12", "0") not in page.rows("kipwatch_advertised_versions_info")
    assert page.left_out == 0


def test_a_response_without_features_hides_none(page: Page) -> None:
    """A client that asks with version 0 is told no features."""
    page.show("a:9092", OLD, at=1)
    page.show("a:9092", OLD, at=2, version=0)
    assert page.rows("kipwatch_advertised_features_info")
    page.show("b:9092", OLD, at=3, version=0)
    assert page.rows("kipwatch_broker_info") == {("a:9092", "c", "L"), ("b:9092", "c", "L")}


def test_brokers_and_advertisements_are_limited_and_what_is_left_out_is_counted(page: Page) -> None:
    for number in range(LIMIT + 4):
        page.show(f"b{number}:9092", OLD)
    assert (len(page.offers()), page.left_out) == (LIMIT, 4)
    for number in range(OFFER_LIMIT + 5):
        page.show("b0:9092", ((3, 0, number),), at=number + 2)
    assert len(page.offers()) == LIMIT
    assert page.offers()["b0:9092"]


def test_apis_that_the_schemas_do_not_have_are_left_out(page: Page) -> None:
    page.show("a:9092", ((3, 0, 12), *((key, 0, 1) for key in range(10_000, 10_400))))
    assert page.rows("kipwatch_advertised_versions_info") == {("Metadata", "12", "0")}
