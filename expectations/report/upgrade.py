"""The meaning of an upgrade of the brokers for each client: which requests the new release refuses.

A request is judged by its version alone: the release has it (`kept`), has it and deprecates it
(`deprecated`), or lacks it (`removed`; KIP-896 removed many). A client breaks if it sends a removed version
and would not choose another. One that negotiates sends the highest version that it and the broker know
(KIP-35). If that was the highest offered, the client may know higher ones; if it is above what the release
has, the client is likely to know lower ones. ApiVersions breaks nobody: a broker answers a version that it
does not know in version 0 (KIP-511).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from decoders.protocol import API_VERSIONS
from decoders.schema.model import VersionRange
from decoders.schema.registry import Schemas
from expectations.report.client import Software, client_text
from expectations.report.fleet import ClientUsage, RequestCount
from expectations.report.versions import api_name


class UpgradeFate(StrEnum):
    """What a release does with an API version that a client uses."""

    REMOVED = "removed"
    DEPRECATED = "deprecated"
    KEPT = "kept"


NEWER: Final = "newer"
"""What metrics call a version above those of the release: its clients likely know lower ones, too."""


class UpgradeRow(msgspec.Struct, frozen=True):
    """The requests of one client at one API version, and their fate.

    `supported` are the versions that the release has, such as `2-9`, None if it lacks the API. `negotiable`
    means that the client negotiates, and may know another version than this one. `last_seen` is the capture
    time of the latest request, in nanoseconds since the epoch.
    """

    client_software_name: str | None
    client_software_version: str | None
    client_id: str | None
    api: str
    api_key: int
    version: int
    verdict: UpgradeFate
    requests: int
    last_seen: int
    supported: str | None
    negotiable: bool

    @property
    def breaks(self) -> bool:
        """Whether the upgraded broker refuses these requests, as far as can be known."""
        return self.verdict is UpgradeFate.REMOVED and not self.negotiable


class UpgradedClient(msgspec.Struct, frozen=True):
    """What the upgrade means for one client. Its `rows` are ordered by verdict and traffic.

    `falls_back` means that the broker answers its ApiVersions with error 35 and the client must ask again.
    `without_api_versions` counts its connections on which it never asked for the versions.
    """

    client_software_name: str | None
    client_software_version: str | None
    client_id: str | None
    breaks: bool
    falls_back: bool
    connections: int
    without_api_versions: int
    requests: int
    last_seen: int
    rows: list[UpgradeRow]

    @property
    def software(self) -> Software:
        """Name and version of the client software."""
        return self.client_software_name, self.client_software_version

    @property
    def name(self) -> str:
        """Software and client ID as one text."""
        return client_text(self.software, self.client_id)


class UpgradeReport(msgspec.Struct, frozen=True):
    """The meaning of an upgrade for each client: those that break come first, then the busiest.

    With `upgrade_from`, requests that neither release has are not the upgrade's doing: they are left out, and
    `refused_before` counts them.
    """

    upgrade_to: str
    upgrade_from: str | None
    refused_before: int
    clients: list[UpgradedClient]

    @property
    def breaking(self) -> list[UpgradedClient]:
        """The clients that break."""
        return [client for client in self.clients if client.breaks]

    @property
    def rows(self) -> list[UpgradeRow]:
        """The rows of all clients, the busiest first."""
        rows = [row for client in self.clients for row in client.rows]
        return sorted(rows, key=lambda row: (-row.requests, row.api_key, row.version))

    def fields(self) -> dict[str, Any]:
        """Return what `report --json` says of the upgrade: `upgrade` has the rows of all clients."""
        to, since = self.upgrade_to, self.upgrade_from
        rows = {"upgrade": self.rows, "upgrade_clients": self.clients}
        return {"upgrade_to": to, "upgrade_from": since, **rows}


def upgrade_report(usages: Iterable[ClientUsage], to: Schemas, since: Schemas | None = None) -> UpgradeReport:
    """Judge what clients used by the release `to`; `since` is the release that the brokers run now."""
    clients, refused_before = [], 0
    for client in usages:
        rows = list(_rows(client, to))
        kept = [row for row in rows if since is None or not _was_refused(row, since)]
        refused_before += sum(row.requests for row in rows if row not in kept)
        if kept:
            clients.append(_upgraded(client, kept, to))
    clients.sort(key=lambda each: (not each.breaks, -each.requests))
    return UpgradeReport(to.release, since.release if since else None, refused_before, clients)


def _rows(client: ClientUsage, to: Schemas) -> Iterator[UpgradeRow]:
    for (api_key, version), use in client.usage.uses.items():
        api = to.api(api_key)
        supported = api.release_versions if api else None
        yield UpgradeRow(
            *client.software,
            client.client_id,
            api=api_name(to.api_names, api_key),
            api_key=api_key,
            version=version,
            verdict=fate_of(api_key, version, to),
            requests=use.requests,
            last_seen=use.last_seen,
            supported=str(supported) if supported else None,
            negotiable=_is_negotiable(client, version, use, supported),
        )


def fate_of(api_key: int, version: int, release: Schemas) -> UpgradeFate:
    """Return what a release does with requests of an API version."""
    api = release.api(api_key)
    if api is None or not api.is_released(version):
        return UpgradeFate.KEPT if api_key == API_VERSIONS else UpgradeFate.REMOVED
    return UpgradeFate.DEPRECATED if version in api.request.deprecated_versions else UpgradeFate.KEPT


def _is_negotiable(
    client: ClientUsage, version: int, use: RequestCount, supported: VersionRange | None
) -> bool:
    is_above = supported is not None and version > supported.highest
    return (use.is_highest_offered or is_above) and not client.usage.without_api_versions


def _was_refused(row: UpgradeRow, before: Schemas) -> bool:
    return (
        row.verdict is UpgradeFate.REMOVED
        and fate_of(row.api_key, row.version, before) is UpgradeFate.REMOVED
    )


def _upgraded(client: ClientUsage, rows: Sequence[UpgradeRow], to: Schemas) -> UpgradedClient:
    asking = to.api(API_VERSIONS)
    order = list(UpgradeFate)
    return UpgradedClient(
        *client.software,
        client.client_id,
        breaks=any(row.breaks for row in rows),
        falls_back=any(
            row.api_key == API_VERSIONS and not (asking and asking.is_released(row.version)) for row in rows
        ),
        connections=client.usage.connections,
        without_api_versions=client.usage.without_api_versions,
        requests=sum(row.requests for row in rows),
        last_seen=max(row.last_seen for row in rows),
        rows=sorted(
            rows, key=lambda row: (order.index(row.verdict), -row.requests, row.api_key, row.version)
        ),
    )
