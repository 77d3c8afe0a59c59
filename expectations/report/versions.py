"""Which versions brokers offer, which features these make, and which clients use them (KIP-35)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from expectations.report.broker import Broker, Range, common_ranges, named_ranges
from expectations.report.client import Client, Software

Features = Mapping[str, Mapping[int, int]]
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
    ranges: list[Range]


class VersionsView(msgspec.Struct, frozen=True):
    """What each broker offers, what all of them offer, and the use of features."""

    brokers: list[Offer]
    common: list[Range]
    features: list[FeatureUse]


def versions_view(
    brokers: Sequence[Broker], clients: Iterable[Client], features: Features, names: Mapping[int, str]
) -> VersionsView:
    """Compare what brokers advertise with what clients use. `names` are those of APIs, by key."""
    return VersionsView(
        [Offer(broker.cluster, broker.address, named_ranges(broker.ranges, names)) for broker in brokers],
        named_ranges(common_ranges(brokers), names),
        feature_uses(features, brokers, clients),
    )


def feature_uses(
    features: Features, brokers: Sequence[Broker], clients: Iterable[Client]
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


def _serves(broker: Broker, needed: Mapping[int, int]) -> bool:
    return _carried(needed, {key: highest for key, (_, highest) in broker.ranges.items()}) == len(needed)


def _carried(needed: Mapping[int, int], highest: Mapping[int, int]) -> int:
    """Count the APIs of a feature whose highest version carries it."""
    return sum(key in highest and highest[key] >= version for key, version in needed.items())
