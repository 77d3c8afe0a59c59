"""Client software in reports: its traffic, its facts and its verdicts, and how it is written."""

from __future__ import annotations

import msgspec

from expectations.report.coverage import Coverage

Software = tuple[str | None, str | None]
"""The name and version of client software; None where no connection gave them."""
EMPTY = '""'
"""How an empty name or version is shown: it was given, so it is not unknown."""


class VersionUse(msgspec.Struct, frozen=True):
    """The versions of an API that a client software used, and the highest that a broker offered it.

    Requests of which too little was captured to know their API are counted under `api_key` None,
    those of which only the version is unknown have no entry in `versions`.
    """

    api: str
    api_key: int | None
    versions: tuple[int, ...]
    requests: int
    highest_offered: int | None


class Client(msgspec.Struct):
    """One client software. `client_ids`, `owners` and `not_random_member_ids` hold the first few, in order.

    `without_api_versions` counts connections, seen from their beginning, on which requests were sent
    but never ApiVersions. `old_api_versions` counts those that sent ApiVersions only below version 3,
    although the broker supports it. `client_id_bytes_repeated` are the bytes of client IDs that were sent
    after the first of a connection, `client_id_bytes_saved` those that null client IDs on header v3 saved,
    and `instance_id_bytes` those of the client instance IDs there (KIP-1313).
    """

    client_software_name: str | None
    client_software_version: str | None
    connections: int
    requests: int
    client_ids: list[str]
    coverage: list[Coverage]
    without_api_versions: int
    old_api_versions: int
    not_random_member_ids: list[str]
    versions: list[VersionUse]
    requests_on_header_v3: int = 0
    client_id_bytes_repeated: int = 0
    client_id_bytes_saved: int = 0
    instance_id_bytes: int = 0
    owners: list[str] = []
    principals: list[str] = []

    @property
    def software(self) -> Software:
        """Name and version."""
        return self.client_software_name, self.client_software_version


def software_order(software: Software) -> tuple[bool, str, str]:
    """Return a key that sorts client software by name and version, the unknown last."""
    name, version = software
    return name is None, name or "", version or ""


def software_text(software: Software) -> str:
    """Return name and version of client software as one text, "unknown" if both are."""
    return " ".join(part or EMPTY for part in software if part is not None) or "unknown"


def client_text(software: Software, client_id: str | None) -> str:
    """Return client software and client ID as one text, without the ID if it is None."""
    named = software_text(software)
    return named if client_id is None else f'{named}, client ID "{client_id}"'
