"""The client of each connection, as far as it is known: KIP-511's request log shows it on each line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from decoders.codec.request import Request
from decoders.frame.record import Kind, Record
from decoders.protocol import API_VERSIONS


@dataclass(slots=True)
class ConnectedClient:
    """A client: the software of its latest ApiVersions request, and its latest client ID other than null."""

    client_id: str | None = None
    software_name: str | None = None
    software_version: str | None = None

    def update(self, request: Request) -> None:
        """Update the client by a request that it sent."""
        if request.client_id is not None:
            self.client_id = request.client_id
        body: dict[str, Any] = request.body or {}
        if request.api_key == API_VERSIONS and "clientSoftwareName" in body:
            self.software_name = body["clientSoftwareName"]
            self.software_version = body["clientSoftwareVersion"]


class ConnectedClients:
    """The clients of the open connections."""

    def __init__(self) -> None:
        self._by_connection: dict[bytes, ConnectedClient] = {}

    def of(self, record: Record) -> ConnectedClient:
        """Return the client of a record's connection; it is forgotten when the connection closes."""
        if record.kind is Kind.CLOSED:
            return self._by_connection.pop(record.connection, ConnectedClient())
        return self._by_connection.setdefault(record.connection, ConnectedClient())
