"""Brokers as they present themselves: the version ranges they advertise, and what all can do (KIP-35)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from expectations.report.fleet import Client

Ranges = Mapping[int, tuple[int, int]]
"""API key → (lowest, highest) version."""
Features = Mapping[str, Mapping[int, int]]
"""Feature → API key → the version from which on the API carries it."""


class Range(msgspec.Struct, frozen=True):
    """The versions of an API, both ends included."""

    api: str
    api_key: int
    lowest: int
    highest: int


class Broker(msgspec.Struct, frozen=True):
    """The ranges that a broker last advertised at an address."""

    cluster: str
    address: str
    ranges: Ranges


class FeatureUse(msgspec.Struct, frozen=True):
    """Who can serve a feature, and who uses it.

    `missing` names the brokers that lack one of its APIs. `used_by` are the client software (name,
    version) that sent every one of its APIs at a version that carries it, `partly_used_by` some.
    """

    feature: str
    missing: list[str]
    used_by: list[tuple[str | None, str | None]]
    partly_used_by: list[tuple[str | None, str | None]]

    @property
    def is_served(self) -> bool:
        """Whether every broker seen can serve it."""
        return not self.missing


class Offer(msgspec.Struct, frozen=True):
    """What one broker advertised."""

    cluster: str
    broker: str
    ranges: list[Range]


class VersionsView(msgspec.Struct, frozen=True):
    """What each broker offers, what all of them do, and the features that this makes."""

    brokers: list[Offer]
    common: list[Range]
    features: list[FeatureUse]


def api_name(names: Mapping[int, str], key: int) -> str:
    """Name an API, by its key where no schema has it."""
    return names.get(key, f"API {key}")


def versions_view(
    brokers: Sequence[Broker], clients: Iterable[Client], features: Features, names: Mapping[int, str]
) -> VersionsView:
    """Put together what brokers advertise and clients use."""
    return VersionsView(
        [Offer(broker.cluster, broker.address, _named(broker.ranges, names)) for broker in brokers],
        _named(common_ranges(brokers), names),
        feature_uses(features, brokers, clients),
    )


def ranges_by_key(ranges: Iterable[Range]) -> dict[int, str]:
    """Write the ranges of APIs as people do: `0-4`."""
    return {each.api_key: f"{each.lowest}-{each.highest}" for each in ranges}


def common_ranges(brokers: Sequence[Broker]) -> dict[int, tuple[int, int]]:
    """Give the versions that every broker takes, of the APIs that every broker has."""
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


def feature_uses(
    features: Features, brokers: Sequence[Broker], clients: Iterable[Client]
) -> list[FeatureUse]:
    """Hold features against what brokers advertise and clients use."""
    used = [
        (client.software, {use.api_key: max(use.versions) for use in client.versions}) for client in clients
    ]
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


def _named(ranges: Ranges, names: Mapping[int, str]) -> list[Range]:
    return [Range(api_name(names, key), key, *ranges[key]) for key in sorted(ranges)]


def _serves(broker: Broker, needed: Mapping[int, int]) -> bool:
    return _carried(needed, {key: highest for key, (_, highest) in broker.ranges.items()}) == len(needed)


def _carried(needed: Mapping[int, int], highest: Mapping[int, int]) -> int:
    """Count the APIs of a feature that are there at a version which carries it."""
    return sum(highest.get(key, -1) >= version for key, version in needed.items())
