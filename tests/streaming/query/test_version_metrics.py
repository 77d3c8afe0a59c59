"""Requests as metrics: each once, by bounded labels, whatever clients send; no count is lost.

Advertisements of brokers as metrics: the latest of each broker, equal ones once, and bounded.
"""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from decoders.schema.registry import default_schemas
from expectations.conversation.bodies import AdvertisedRanges
from expectations.report.upgrade import fate_of
from streaming.judging.changes import BrokerShown
from streaming.judging.report import Report, Requests
from streaming.metrics.labels import FORMER, LEAVES_AFTER, MINUTE, OTHER, UNKNOWN
from streaming.query.application_metrics import ApplicationMetrics, MetricsSink
from streaming.query.version_metrics import OFFER_LIMIT, VERSIONS_PER_LABEL, BrokerMetrics

LIMIT = 5
FETCH, METADATA, API_VERSIONS = 1, 3, 18
REQUESTS = "kipwatch_requests_total"


class Page:
    """The metrics of an application that counts requests."""

    def __init__(self) -> None:
        self.metrics = ApplicationMetrics([], version="0.1.0", kafka="4.4.0", label_limit=LIMIT)
        self.sink = MetricsSink(self.metrics)

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a metric by label values, in the order of the labels' names."""
        return {
            tuple(sample.labels[label] for label in sorted(sample.labels)): sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def page() -> Page:
    return Page()


def sent(
    api_key: int, version: int, name: str | None, count: int = 1, *, gives_ids: bool = False
) -> Requests:
    return Requests(api_key, version, name, gives_ids, count)


def test_requests_count_by_api_version_and_software_and_a_repeated_batch_once(page: Page) -> None:
    report = Report(0, requests=[sent(FETCH, 16, "java", 3), sent(FETCH, 16, None, 2), sent(999, 7, "java")])
    for batch in (0, 0, 1):
        page.sink.add_batch(batch, [report])
    assert page.samples(REQUESTS) == {
        ("Fetch", "java", "16"): 6,
        ("Fetch", UNKNOWN, "16"): 4,
        (UNKNOWN, "java", UNKNOWN): 2,
    }


def test_the_fate_of_each_version_in_the_release_is_beside_it(page: Page) -> None:
    removed = next(v for v in range(20) if fate_of(FETCH, v, default_schemas()) == "removed")
    page.metrics.requests.count([sent(FETCH, 16, "java"), sent(FETCH, removed, "old"), sent(999, 7, "java")])
    shown = page.samples("kipwatch_api_version_info")
    assert shown == {("Fetch", "kept", "2", "16"): 1, ("Fetch", "removed", "1", str(removed)): 1}


def test_a_version_above_those_of_the_release_was_not_removed(page: Page) -> None:
    """Who sends it negotiates. Of KIP-1313 no release has any, and it may be the overlay's or unknown."""
    fetch = default_schemas().api(FETCH)
    assert fetch and fetch.release_versions
    highest = fetch.release_versions.highest
    page.metrics.requests.count([sent(FETCH, highest + more, "java") for more in range(3)])
    shown = {(fate, int(version)) for _, fate, _, version in page.samples("kipwatch_api_version_info")}
    assert shown == {("kept", highest), ("newer", highest + 1), ("newer", highest + 2)}


def test_invented_names_are_counted_as_other_and_no_request_is_lost(page: Page) -> None:
    invented = [sent(METADATA, 12, f"invented-{number}") for number in range(100)]
    page.metrics.requests.count([*invented, sent(METADATA, 12, "java", 50)])
    shown = page.samples(REQUESTS)
    assert len(shown) == LIMIT + 1
    assert shown["Metadata", "java", "12"] == 50
    assert sum(shown.values()) == 150


def test_versions_beyond_the_limit_cost_only_the_software_that_sends_them(page: Page) -> None:
    page.metrics.requests.count([sent(FETCH, version, "fuzzer") for version in range(1000, 1100)])
    page.metrics.requests.count([sent(FETCH, 16, "java")])
    shown = page.samples(REQUESTS)
    assert shown[OTHER, "fuzzer", OTHER] == 100 - LIMIT
    assert shown["Fetch", "java", "16"] == 1
    assert page.samples("kipwatch_label_overflow_total") == {(): 100 - LIMIT}


def test_invented_versions_under_ever_new_names_are_shown_up_to_a_limit(page: Page) -> None:
    for number in range(200):
        page.metrics.requests.count([sent(FETCH, 1000 + number, f"name-{number % LIMIT}")])
        page.metrics.requests.retire(f"name-{number % LIMIT}")
    assert len(page.samples("kipwatch_api_version_info")) == VERSIONS_PER_LABEL * LIMIT


def test_software_that_loses_its_series_is_counted_as_former(page: Page) -> None:
    page.metrics.reassign_labels(0.0)
    names = [f"old-{number}" for number in range(LIMIT)]
    page.metrics.requests.count([sent(API_VERSIONS, 5, name, 2) for name in names])
    now = 0.0
    for _ in range(int(LEAVES_AFTER / MINUTE) + 30):
        now += MINUTE
        page.metrics.show_connections({(("java", "1"), "L"): 9})
        page.metrics.reassign_labels(now)
    page.metrics.requests.count([sent(API_VERSIONS, 5, "java")])
    shown = page.samples(REQUESTS)
    assert shown["ApiVersions", FORMER, "5"] == 2
    assert sum(shown.values()) == 2 * LIMIT + 1
    assert sum(page.samples("kipwatch_broker_ids_total").values()) == 2 * LIMIT + 1


def test_requests_that_name_their_broker_are_counted_from_version_5_on(page: Page) -> None:
    given = [sent(API_VERSIONS, 5, "java", 3, gives_ids=True), sent(API_VERSIONS, 5, "java", 1)]
    others = [sent(API_VERSIONS, 4, "java", 8), sent(METADATA, 12, "java", 9, gives_ids=True)]
    page.metrics.requests.count([*given, *others])
    assert page.samples("kipwatch_broker_ids_total") == {("java", "given"): 3, ("java", "none"): 1}


BROKER_LIMIT = 3
IDS = {"versions", "features"}
OLD: AdvertisedRanges = ((3, 0, 12), (18, 0, 4))
NEW: AdvertisedRanges = ((3, 0, 13), (18, 0, 5))


class BrokerPage:
    """The metrics of brokers. `left_out` counts showings that are not shown."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.left_out = 0.0
        names = default_schemas().api_names
        self.brokers = BrokerMetrics(self.registry, names, BROKER_LIMIT, self._leave_out)

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
def broker_page() -> BrokerPage:
    return BrokerPage()


def test_equal_advertisements_share_an_id_in_whatever_order(broker_page: BrokerPage) -> None:
    broker_page.show("a:9092", OLD)
    broker_page.show("b:9092", tuple(reversed(OLD)))
    broker_page.show("c:9092", NEW)
    offers = broker_page.offers()
    assert offers["a:9092"] == offers["b:9092"] != offers["c:9092"]
    versions = broker_page.rows("kipwatch_advertised_versions_info")
    assert versions == {
        ("Metadata", "12", "0"),
        ("ApiVersions", "4", "0"),
        ("Metadata", "13", "0"),
        ("ApiVersions", "5", "0"),
    }
    assert broker_page.rows("kipwatch_advertised_features_info") == {
        ("group.version", "1", "supported", "0"),
        ("group.version", "1", "finalized", "0"),
    }


def test_an_upgraded_broker_shows_the_later_advertisement_alone(broker_page: BrokerPage) -> None:
    broker_page.show("a:9092", OLD, at=1)
    broker_page.show("a:9092", NEW, at=3)
    broker_page.show("a:9092", OLD, at=2)
    assert len(broker_page.offers()) == 1
    assert ("Metadata", "13", "0") in broker_page.rows("kipwatch_advertised_versions_info")
    assert ("Metadata", "12", "0") not in broker_page.rows("kipwatch_advertised_versions_info")
    assert broker_page.left_out == 0


def test_a_response_without_features_hides_none(broker_page: BrokerPage) -> None:
    """A response of version 0 has no features."""
    broker_page.show("a:9092", OLD, at=1)
    broker_page.show("a:9092", OLD, at=2, version=0)
    assert broker_page.rows("kipwatch_advertised_features_info")
    broker_page.show("b:9092", OLD, at=3, version=0)
    assert broker_page.rows("kipwatch_broker_info") == {("a:9092", "c", "L"), ("b:9092", "c", "L")}


def test_brokers_and_advertisements_are_limited_and_what_is_left_out_is_counted(
    broker_page: BrokerPage,
) -> None:
    for number in range(BROKER_LIMIT + 4):
        broker_page.show(f"b{number}:9092", OLD)
    assert (len(broker_page.offers()), broker_page.left_out) == (BROKER_LIMIT, 4)
    for number in range(OFFER_LIMIT + 5):
        broker_page.show("b0:9092", ((3, 0, number),), at=number + 2)
    assert len(broker_page.offers()) == BROKER_LIMIT
    assert broker_page.offers()["b0:9092"]


def test_apis_that_the_schemas_do_not_have_are_left_out(broker_page: BrokerPage) -> None:
    broker_page.show("a:9092", ((3, 0, 12), *((key, 0, 1) for key in range(10_000, 10_400))))
    assert broker_page.rows("kipwatch_advertised_versions_info") == {("Metadata", "12", "0")}
