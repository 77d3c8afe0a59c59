"""Who speaks on a connection, as far as it has said: KIP-511's enriched request log needs it on each line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from decoders.codec.request import Request
from decoders.frame.record import Kind, Record
from decoders.schema.header_versions import API_VERSIONS


@dataclass(slots=True)
class Speaker:
    """A client: the software that its latest ApiVersions announced, and its latest client ID but null."""

    client_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None

    def hear(self, request: Request) -> None:
        """Take in what a request says of its sender."""
        if request.client_id is not None:
            self.client_id = request.client_id
        body: dict[str, Any] = request.body or {}
        if request.api_key == API_VERSIONS and "clientSoftwareName" in body:
            self.software_name = body["clientSoftwareName"]
            self.software_version = body["clientSoftwareVersion"]


class Speakers:
    """The speakers of the connections that are open."""

    def __init__(self) -> None:
        self._by_connection: dict[bytes, Speaker] = {}

    def on(self, record: Record) -> Speaker:
        """Give the speaker of a record's connection; one that has closed is forgotten."""
        if record.kind is Kind.CLOSED:
            return self._by_connection.pop(record.connection, Speaker())
        return self._by_connection.setdefault(record.connection, Speaker())
