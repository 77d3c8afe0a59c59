"""What brokers offer: their common ranges, and features that every broker seen can serve."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from expectations.report.client import Client, VersionUse
from expectations.report.versions import (
    AdvertisingBroker,
    FeatureUse,
    common_ranges,
    feature_uses,
    versions_view,
)

OLD = AdvertisingBroker("", "old:9092", {0: (0, 8), 3: (0, 9), 76: (0, 0)})
NEW = AdvertisingBroker("", "new:9092", {0: (3, 13), 76: (1, 1), 78: (1, 2)})
FEATURES = {"share-groups": {76: 1, 78: 1}, "produce": {0: 8}}

_RANGE = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(lambda ends: (min(ends), max(ends)))
_BROKERS = st.lists(
    st.dictionaries(st.integers(0, 4), _RANGE).map(lambda ranges: AdvertisingBroker("", "b", ranges)),
    min_size=1,
)


def client(name: str, **highest: int) -> Client:
    used = [VersionUse(api, int(api[1:]), (0, version), 1, None) for api, version in highest.items()]
    return Client(name, "1", 1, 1, [], [], 0, 0, [], used)


def use_of(feature: str, brokers: list[AdvertisingBroker], *clients: Client) -> FeatureUse:
    return feature_uses({feature: FEATURES[feature]}, brokers, clients)[0]


@given(_BROKERS)
def test_a_version_is_common_exactly_if_every_broker_takes_it(brokers: list[AdvertisingBroker]) -> None:
    common = common_ranges(brokers)
    for key in range(5):
        for version in range(6):
            taken = all(
                key in broker.ranges and broker.ranges[key][0] <= version <= broker.ranges[key][1]
                for broker in brokers
            )
            assert taken is (key in common and common[key][0] <= version <= common[key][1])


def test_without_brokers_no_version_is_common() -> None:
    assert common_ranges([]) == {}


def test_a_feature_is_served_where_every_broker_has_every_api_of_it() -> None:
    assert use_of("share-groups", [NEW]).is_served
    assert use_of("share-groups", [NEW, OLD]).missing == ["old:9092"]
    assert use_of("produce", [NEW, OLD]).is_served


def test_a_feature_is_used_wholly_in_part_or_not() -> None:
    whole, part, old = client("w", _76=1, _78=2), client("p", _76=1), client("o", _76=0)
    use = use_of("share-groups", [NEW], whole, part, old)
    assert (use.used_by, use.partly_used_by) == ([("w", "1")], [("p", "1")])


def test_the_view_names_apis_and_those_that_no_schema_has() -> None:
    view = versions_view([NEW], [], {}, {0: "Produce"})
    assert [(each.api, each.lowest, each.highest) for each in view.common] == [
        ("Produce", 3, 13),
        ("API 76", 1, 1),
        ("API 78", 1, 2),
    ]
