"""Reads the broker's own request log, an independent record to compare a capture with.

Kafka logs a request when it is completed, so the lines are in order of completion. Requests before SASL
authentication are never logged, and a null client ID is logged as "".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

_PREFIX = "Completed request:"


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as the broker read it."""

    listener: str
    connection: str
    """Kafka's name of a connection: `local:port-remote:port-processor-index`."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    """Empty if the client sent null."""
    request: dict[str, Any] | None = field(default=None, compare=False)
    response: dict[str, Any] | None = field(default=None, compare=False)
    """The bodies as Kafka prints them; a request that wants no response has none."""
    principal: str = field(default="", compare=False)
    """Its type and name, such as `User:alice`."""

    @property
    def client(self) -> str:
        """The address of the client."""
        return self.connection.split("-")[1]


class _Header(msgspec.Struct, rename="camel"):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    request_header: _Header
    connection: str
    listener: str
    principal: str = ""
    request: dict[str, Any] | None = None
    response: dict[str, Any] | str | None = None


_DECODER = msgspec.json.Decoder(_Line)


def read_request_log(path: Path) -> Iterator[LoggedRequest]:
    """Yield the requests of a log; an incomplete last line, which is still being written, is left out."""
    with path.open(encoding="utf-8") as log:
        for line in log:
            if line.startswith(_PREFIX) and line.endswith("\n"):
                yield logged_request(line)


def logged_request(line: str) -> LoggedRequest:
    """Read one line of the log. Raises `msgspec.DecodeError` if it is not a request."""
    entry = _DECODER.decode(line.removeprefix(_PREFIX))
    header = entry.request_header
    return LoggedRequest(
        entry.listener,
        entry.connection,
        header.request_api_key,
        header.request_api_version,
        header.correlation_id,
        header.client_id or "",
        entry.request,
        # Kafka 3.9 logs "" for none.
        None if isinstance(entry.response, str) else entry.response,
        entry.principal,
    )
