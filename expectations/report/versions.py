"""The versions that brokers advertise, the features that they make possible, and their use (KIP-35)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from expectations.report.client import Client, Software

Ranges = Mapping[int, tuple[int, int]]
"""API key → (lowest, highest) version."""


class ApiRange(msgspec.Struct, frozen=True):
    """The versions of an API, both ends included."""

    api: str
    api_key: int
    lowest: int
    highest: int


class AdvertisingBroker(msgspec.Struct, frozen=True):
    """The ranges that a broker last advertised at an address."""

    cluster: str
    address: str
    ranges: Ranges


def api_name(names: Mapping[int, str], key: int) -> str:
    """Return the name of an API, `API 96` if no schema has its key."""
    return names.get(key, f"API {key}")


def named_ranges(ranges: Ranges, names: Mapping[int, str]) -> list[ApiRange]:
    """Return ranges with the names of their APIs, ordered by API key."""
    return [ApiRange(api_name(names, key), key, *ranges[key]) for key in sorted(ranges)]


def ranges_by_key(ranges: Iterable[ApiRange]) -> dict[int, str]:
    """Return the ranges of APIs as text, such as `0-4`, by API key."""
    return {each.api_key: f"{each.lowest}-{each.highest}" for each in ranges}


def common_ranges(brokers: Sequence[AdvertisingBroker]) -> dict[int, tuple[int, int]]:
    """Return the versions that every broker supports, of the APIs that every broker has."""
    if not brokers:
        return {}
    shared = set.intersection(*(set(broker.ranges) for broker in brokers))
    common = {}
    for key in sorted(shared):
        lowest = max(broker.ranges[key][0] for broker in brokers)
        highest = min(broker.ranges[key][1] for broker in brokers)
        if lowest <= highest:
            common[key] = (lowest, highest)
    return common


FeatureMap = Mapping[str, Mapping[int, int]]
"""Feature → API key → the lowest version of the API that carries the feature."""


class FeatureUse(msgspec.Struct, frozen=True):
    """Which brokers cannot serve a feature, and which clients use it.

    `missing` names the brokers that lack one of its APIs. `used_by` are the client software (name,
    version) that sent every one of its APIs at a version that carries it, `partly_used_by` some.
    """

    feature: str
    missing: list[str]
    used_by: list[Software]
    partly_used_by: list[Software]

    @property
    def is_served(self) -> bool:
        """Whether every broker seen can serve it."""
        return not self.missing


class Offer(msgspec.Struct, frozen=True):
    """What one broker advertised."""

    cluster: str
    broker: str
    ranges: list[ApiRange]


class VersionsView(msgspec.Struct, frozen=True):
    """What each broker offers, what all of them offer, and the use of features."""

    brokers: list[Offer]
    common: list[ApiRange]
    features: list[FeatureUse]


def versions_view(
    brokers: Sequence[AdvertisingBroker],
    clients: Iterable[Client],
    features: FeatureMap,
    names: Mapping[int, str],
) -> VersionsView:
    """Compare what brokers advertise with what clients use. `names` are those of APIs, by key."""
    return VersionsView(
        [Offer(broker.cluster, broker.address, named_ranges(broker.ranges, names)) for broker in brokers],
        named_ranges(common_ranges(brokers), names),
        feature_uses(features, brokers, clients),
    )


def feature_uses(
    features: FeatureMap, brokers: Sequence[AdvertisingBroker], clients: Iterable[Client]
) -> list[FeatureUse]:
    """Return, for each feature, the brokers that lack it and the clients that use it."""
    used = [(client.software, _highest_used(client)) for client in clients]
    uses = []
    for feature, needed in features.items():
        using = [(software, _carried(needed, highest)) for software, highest in used]
        uses.append(
            FeatureUse(
                feature,
                missing=[broker.address for broker in brokers if not _serves(broker, needed)],
                used_by=[software for software, carried in using if carried == len(needed)],
                partly_used_by=[software for software, carried in using if 0 < carried < len(needed)],
            )
        )
    return uses


def _highest_used(client: Client) -> dict[int, int]:
    return {
        use.api_key: max(use.versions) for use in client.versions if use.api_key is not None and use.versions
    }


def _serves(broker: AdvertisingBroker, needed: Mapping[int, int]) -> bool:
    return _carried(needed, {key: highest for key, (_, highest) in broker.ranges.items()}) == len(needed)


def _carried(needed: Mapping[int, int], highest: Mapping[int, int]) -> int:
    """Count the APIs of a feature whose highest version carries it."""
    return sum(key in highest and highest[key] >= version for key, version in needed.items())
