"""What brokers advertise, as metrics: which broker offers what, and the versions and features of each offer.

Most brokers of a cluster advertise the same, so an advertisement is shown once, under an ID. A hostile server
may advertise anything, so brokers, advertisements and their parts are limited.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from streaming.judging.changes import BrokerShown
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.label_values import label_value

OFFER_LIMIT: Final = 20
"""Different lists of versions that are shown, and of features."""
FEATURE_LIMIT: Final = 50
"""Features of a list that are shown; Kafka has ten, some of them of both kinds."""
FEATURES_FROM: Final = 3
"""The first version of the ApiVersions response that has features. Later ones may list more (KIP-584)."""
UNKNOWN_FEATURES: Final = ""
_ID_BYTES: Final = 4

_Labels = tuple[str, ...]


class Offers:
    """Lists that brokers offer, each shown once, as series of a metric, under its ID."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: dict[str, list[_Labels]] = {}

    def add(self, name: str, rows: Iterable[_Labels]) -> bool:
        """Show a list, unless it is shown. Returns False if there are too many."""
        if name not in self._shown:
            if len(self._shown) >= OFFER_LIMIT:
                return False
            self._shown[name] = list(dict.fromkeys(rows))
            for row in self._shown[name]:
                self._gauge.labels(name, *row).set(1)
        return True

    def keep(self, used: set[str]) -> None:
        """Remove the lists that no broker offers any more."""
        for name in self._shown.keys() - used:
            for row in self._shown.pop(name):
                self._gauge.remove(name, *row)


class _Broker(NamedTuple):
    """What is shown of a broker: its labels, when its versions were advertised, and how its features were."""

    labels: _Labels
    at: int
    features_of: int


class BrokerMetrics:
    """Shows the latest advertisement of each broker. APIs that `api_names` has not are left out.

    Features are those of the highest response version that a client has asked for: lower ones hide some.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        api_names: Mapping[int, str],
        limit: int,
        overflowed: Callable[[float], None],
    ) -> None:
        """`limit` bounds the brokers; `overflowed` is called with 1 for each showing that is left out."""
        self._gauge = instruments.gauge(metrics.BROKERS, registry)
        self._versions = Offers(instruments.gauge(metrics.ADVERTISED_VERSIONS, registry))
        self._features = Offers(instruments.gauge(metrics.ADVERTISED_FEATURES, registry))
        self._api_names = api_names
        self._limit = limit
        self._overflowed = overflowed
        self._brokers: dict[tuple[str, str], _Broker] = {}

    def show(self, shown: BrokerShown, at: int) -> None:
        """Show what a broker advertised at a time, as far as nothing better is shown already."""
        key = shown.cluster, shown.server
        known = self._brokers.get(key)
        if known is None and len(self._brokers) >= self._limit:
            self._overflowed(1)
            return
        broker = self._next(known, shown, at)
        if broker is None:
            self._overflowed(1)
        elif known is None or broker.labels != known.labels:
            self._replace(key, known, broker)
        else:
            self._brokers[key] = broker

    def _next(self, known: _Broker | None, shown: BrokerShown, at: int) -> _Broker | None:
        """Return what is to be shown of a broker; None if there are too many offers."""
        versions, features = known.labels[-2:] if known else ("", UNKNOWN_FEATURES)
        latest, features_of = (known.at, known.features_of) if known else (-1, -1)
        if at >= latest:
            latest, versions = at, _id(sorted(shown.ranges or ()))
            if not self._versions.add(versions, self._version_rows(shown)):
                return None
        version = shown.body_version or 0
        if version >= max(features_of, FEATURES_FROM) and latest == at:
            rows = _feature_rows(shown)
            features_of, features = version, _id(rows)
            if not self._features.add(features, rows):
                return None
        where = map(label_value, (shown.cluster, shown.listener, shown.server))
        return _Broker((*where, versions, features), latest, features_of)

    def _replace(self, key: tuple[str, str], known: _Broker | None, broker: _Broker) -> None:
        if known is not None:
            self._gauge.remove(*known.labels)
        self._gauge.labels(*broker.labels).set(1)
        self._brokers[key] = broker
        self._versions.keep({each.labels[-2] for each in self._brokers.values()})
        self._features.keep({each.labels[-1] for each in self._brokers.values()})

    def _version_rows(self, shown: BrokerShown) -> Iterator[_Labels]:
        ranges = {key: (lowest, highest) for key, lowest, highest in shown.ranges or ()}
        for key, (lowest, highest) in ranges.items():
            if key in self._api_names:
                yield self._api_names[key], str(lowest), str(highest)


def _id(offered: object) -> str:
    return hashlib.blake2b(msgspec.msgpack.encode(offered), digest_size=_ID_BYTES).hexdigest()


def _feature_rows(shown: BrokerShown) -> list[_Labels]:
    kinds = {"supported": shown.supported_features, "finalized": shown.finalized_features}
    rows: list[_Labels] = [
        (label_value(feature), kind, str(lowest), str(highest))
        for kind, features in kinds.items()
        for feature, lowest, highest in sorted(features or ())
    ]
    return rows[:FEATURE_LIMIT]
