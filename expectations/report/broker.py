"""Brokers as they present themselves: the version ranges they advertise, and what all share (KIP-35)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

Ranges = Mapping[int, tuple[int, int]]
"""API key → (lowest, highest) version."""


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


def api_name(names: Mapping[int, str], key: int) -> str:
    """Return the name of an API, `API 96` if no schema has its key."""
    return names.get(key, f"API {key}")


def named_ranges(ranges: Ranges, names: Mapping[int, str]) -> list[Range]:
    """Return ranges with the names of their APIs, ordered by API key."""
    return [Range(api_name(names, key), key, *ranges[key]) for key in sorted(ranges)]


def ranges_by_key(ranges: Iterable[Range]) -> dict[int, str]:
    """Return the ranges of APIs as text, such as `0-4`, by API key."""
    return {each.api_key: f"{each.lowest}-{each.highest}" for each in ranges}


def common_ranges(brokers: Sequence[Broker]) -> dict[int, tuple[int, int]]:
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
