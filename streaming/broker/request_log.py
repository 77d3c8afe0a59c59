"""The broker's own request log: what it says that clients asked, an independent witness of what was captured.

Kafka prints a request when it is done with it, so the lines are in order of completion; requests before
SASL authentication are never printed, and a null client ID is printed as "".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

_PREFIX = "Completed request:"


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request as the broker parsed it."""

    listener: str
    connection: str
    """Kafka's name of a connection: `local:port-remote:port-processor-index`."""
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    """Empty where the client sent none."""


class _Header(msgspec.Struct, rename="camel"):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    request_header: _Header
    connection: str
    listener: str


_DECODER = msgspec.json.Decoder(_Line)


def read_request_log(path: Path) -> Iterator[LoggedRequest]:
    """Yield the requests of a log. The broker may still be writing it: a line without its end is left out."""
    with path.open(encoding="utf-8") as log:
        for line in log:
            if line.startswith(_PREFIX) and line.endswith("\n"):
                yield logged_request(line)


def logged_request(line: str) -> LoggedRequest:
    """Read one line of the log. Raises `msgspec.DecodeError` when it is not one."""
    entry = _DECODER.decode(line.removeprefix(_PREFIX))
    header = entry.request_header
    return LoggedRequest(
        entry.listener,
        entry.connection,
        header.request_api_key,
        header.request_api_version,
        header.correlation_id,
        header.client_id or "",
    )
