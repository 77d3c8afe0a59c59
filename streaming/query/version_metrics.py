"""API versions on the metrics page: those that clients use, and those that brokers advertise.

Requests are counted by API, version and client software. Each API version that occurs also shows what
becomes of it at an upgrade.

Most brokers of a cluster advertise the same, so an advertisement is shown once, under an ID, and each broker
shows the IDs of its versions and of its features. Features are those of the highest response version that a
client has asked for, since lower versions hide some. A hostile server may advertise anything, so brokers,
advertisements and their parts are limited.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from decoders.protocol import API_VERSIONS, NAMES_BROKER_FROM
from decoders.schema.registry import Schemas
from expectations.report.upgrade import NEWER, UpgradeFate, fate_of
from streaming.judging.changes import BrokerShown
from streaming.judging.report import Requests
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.labels import FORMER, OTHER, UNKNOWN, SoftwareSlots, label_value

VERSIONS_PER_LABEL: Final = 10
"""API versions that are shown with their fate, as a multiple of the label limit: Kafka has 600."""
IDS_GIVEN: Final = "given"
IDS_NONE: Final = "none"
OFFER_LIMIT: Final = 20
"""Maximum number of different lists of versions that are shown, and of lists of features."""
FEATURE_LIMIT: Final = 50
"""Maximum number of features of a list that are shown. Kafka has ten, some of them of both kinds."""
FEATURES_FROM: Final = 3
"""The first version of the ApiVersions response that has features. Later ones may list more (KIP-584)."""
UNKNOWN_FEATURES: Final = ""
_ID_BYTES: Final = 4

_Version = tuple[str, str]
"""The labels for an API and its version."""
_Labels = tuple[str, ...]


class RequestMetrics:
    """Counts requests. `limit` bounds the API versions of one client software; further ones are `other`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        schemas: Schemas,
        software: SoftwareSlots,
        limit: int,
        overflowed: Callable[[float], None],
    ) -> None:
        self._requests = instruments.counter(metrics.REQUESTS, registry)
        self._versions = instruments.gauge(metrics.API_VERSIONS, registry)
        self._ids = instruments.counter(metrics.BROKER_IDS, registry)
        self._schemas = schemas
        self._software = software
        self._limit = limit
        self._overflowed = overflowed
        self._sent: defaultdict[str, Counter[_Version]] = defaultdict(Counter)
        self._shown: set[_Version] = set()
        self._named: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def count(self, requests: Iterable[Requests]) -> None:
        """Count the requests of a batch. The software that sent most gets the slots that are free."""
        by_software: defaultdict[str | None, list[Requests]] = defaultdict(list)
        amounts: Counter[str | None] = Counter()
        for each in requests:
            by_software[each.software_name].append(each)
            amounts[each.software_name] += each.count
        for name, amount in amounts.most_common():
            label, _ = self._software.admit(name, None, amount=amount)
            for each in by_software[name]:
                self._count(label, each)

    def retire(self, name: str) -> None:
        """Count the requests of software that has lost its series as former."""
        for version, amount in self._sent.pop(name, Counter()).items():
            self._requests.remove(*version, name)
            self._add(FORMER, version, amount)
        for ids, amount in self._named.pop(name, Counter()).items():
            self._ids.remove(name, ids)
            self._ids.labels(FORMER, ids).inc(amount)

    def _count(self, software: str, sent: Requests) -> None:
        name = self._schemas.api_names.get(sent.api_key)
        version = (UNKNOWN, UNKNOWN) if name is None else (name, str(sent.api_version))
        if self._add(software, version, sent.count):
            self._show(version, sent)
        if sent.api_key == API_VERSIONS and sent.api_version >= NAMES_BROKER_FROM:
            ids = IDS_GIVEN if sent.gives_ids else IDS_NONE
            self._named[software][ids] += sent.count
            self._ids.labels(software, ids).inc(sent.count)

    def _add(self, software: str, version: _Version, amount: int) -> bool:
        """Count requests. Returns False if the software has too many versions, and they count as `other`."""
        sent = self._sent[software]
        is_admitted = version in sent or len(sent) < self._limit
        if not is_admitted:
            self._overflowed(amount)
            version = OTHER, OTHER
        sent[version] += amount
        self._requests.labels(*version, software).inc(amount)
        return is_admitted

    def _show(self, version: _Version, sent: Requests) -> None:
        """Show the fate of an API version, unless the schemas lack the API."""
        api = self._schemas.api(sent.api_key)
        is_full = len(self._shown) >= VERSIONS_PER_LABEL * self._limit
        if api is not None and version not in self._shown and not is_full:
            self._shown.add(version)
            released = api.release_versions
            fate: str = fate_of(sent.api_key, sent.api_version, self._schemas)
            if fate == UpgradeFate.REMOVED and released and sent.api_version > released.highest:
                fate = NEWER
            header = api.request_header_version(sent.api_version)
            self._versions.labels(*version, fate, str(header)).set(1)


class Offers:
    """Shows each list of versions, or of features, once under its ID, as series of a metric."""

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
    """A broker's labels, when its versions were advertised, and the response version of its features."""

    labels: _Labels
    at: int
    features_of: int


class BrokerMetrics:
    """Shows the latest advertisement of each broker, without APIs that are not in `api_names`."""

    def __init__(
        self,
        registry: CollectorRegistry,
        api_names: Mapping[int, str],
        limit: int,
        overflowed: Callable[[float], None],
    ) -> None:
        """`limit` bounds the brokers; `overflowed` is called with 1 for each advertisement left out."""
        self._gauge = instruments.gauge(metrics.BROKERS, registry)
        self._versions = Offers(instruments.gauge(metrics.ADVERTISED_VERSIONS, registry))
        self._features = Offers(instruments.gauge(metrics.ADVERTISED_FEATURES, registry))
        self._api_names = api_names
        self._limit = limit
        self._overflowed = overflowed
        self._brokers: dict[tuple[str, str], _Broker] = {}

    def show(self, shown: BrokerShown, at: int) -> None:
        """Show what a broker advertised at a time, unless something later or more complete is shown."""
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
        """Return the broker after an advertisement; None if there are too many different ones."""
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
