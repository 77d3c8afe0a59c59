"""Requests as metrics: by API, version and client software, and what becomes of each at an upgrade."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry

from decoders.protocol import API_VERSIONS
from decoders.schema.registry import Schemas
from expectations.report.upgrade import fate_of
from streaming.judging.report import Requests
from streaming.metrics import definitions as metrics
from streaming.metrics import instruments
from streaming.metrics.label_values import OTHER, UNKNOWN
from streaming.metrics.software_labels import FORMER, SoftwareSlots

NAMES_BROKER_FROM: Final = 5
"""The first version of ApiVersions that may name the broker that it means to reach (KIP-1242)."""
VERSIONS_PER_LABEL: Final = 10
"""How many times more API versions are shown with their fate than a label may have values: Kafka has 600."""
IDS_GIVEN: Final = "given"
IDS_NONE: Final = "none"

_Version = tuple[str, str]
"""The labels for an API and its version."""


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
        """Count what a software sent as former: it has lost its series."""
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
        """Show what becomes of an API version; nothing is known of those of unknown APIs."""
        api = self._schemas.api(sent.api_key)
        is_full = len(self._shown) >= VERSIONS_PER_LABEL * self._limit
        if api is not None and version not in self._shown and not is_full:
            self._shown.add(version)
            fate = fate_of(sent.api_key, sent.api_version, self._schemas)
            header = api.request_header_version(sent.api_version)
            self._versions.labels(*version, str(fate), str(header)).set(1)
