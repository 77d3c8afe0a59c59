"""A scripted exchange between a client and a broker, written as records the way the feeder writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.frame.record import Closing, Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas

SECOND = 1_000_000_000
ID_A, ID_B = bytes(range(16)), bytes(range(16, 32))
ZERO_ID = bytes(16)
SOFTWARE = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1.0"}
ADVERTISED = {18: (0, 6), 3: (0, 14), 10: (0, 7), 68: (0, 2), 0: (3, 14)}


@dataclass
class WrittenExchange:
    """Records of one connection. Each call adds one; `at` is the capture time in nanoseconds.

    Connections that share their `records` are those of one capture.
    """

    mid_stream: bool = False
    records: list[Record] = field(default_factory=list)
    at: int = 1_000 * SECOND
    correlation_id: int = 0
    connection: bytes = b"c" * 16
    client: str = "10.0.0.1:40000"
    server: str = "10.0.0.2:9092"

    def __post_init__(self) -> None:
        self._add(Kind.OPENED, flags=Flag.MID_STREAM if self.mid_stream else Flag.NONE)

    def request(
        self,
        api: str,
        version: int,
        body: dict[str, Any] | None = None,
        *,
        client_id: str | None = None,
        instance_id: bytes | None = None,
        settled: bool = False,
        informed: bool = False,
        layout: Layout | None = None,
        frame: bytes | None = None,
    ) -> Record:
        """Add a request, or the bytes of one."""
        self.correlation_id += 1
        schemas = default_schemas()
        known = schemas.api_named(api)
        on_header_v3 = known is not None and known.request_header_version(version) == 3
        given = (instance_id or ZERO_ID) if on_header_v3 else None
        if frame is None:
            frame = write_request(
                schemas, api, version, self.correlation_id, client_id, body or {}, given, layout
            )
        flags = Flag(Flag.SETTLED * settled | Flag.INFORMED * informed)
        return self._add(Kind.REQUEST, frame=frame, flags=flags, direction=Direction.TO_BROKER)

    def respond(
        self,
        request: Record,
        body: dict[str, Any] | None = None,
        *,
        version: int | None = None,
        frame: bytes | None = None,
    ) -> Record:
        """Add the response to a request, or its bytes; `version` is that of the body if it differs."""
        key, asked = (int.from_bytes(request.frame[at : at + 2]) for at in (0, 2))
        correlation_id = int.from_bytes(request.frame[4:8])
        written = asked if version is None else version
        if frame is None:
            frame = write_response(default_schemas(), key, written, correlation_id, body or {})
        return self._add(
            Kind.RESPONSE,
            frame=frame,
            direction=Direction.TO_CLIENT,
            pairing=Pairing.MATCHED,
            paired_sequence=request.sequence,
            paired_api_key=key,
            paired_api_version=asked,
        )

    def stray(self, pairing: Pairing, frame: bytes = bytes(4), *, api_key: int = -1) -> Record:
        """Add a response that is not paired with a request; `api_key` is what its bytes show."""
        paired = {"pairing": pairing, "paired_api_key": api_key}
        return self._add(Kind.RESPONSE, frame=frame, direction=Direction.TO_CLIENT, **paired)

    def negotiate(self, version: int = 4, **how: Any) -> None:
        """Ask for the versions and be told ADVERTISED."""
        request = self.request("ApiVersions", version, SOFTWARE, **how)
        self.respond(request, advertisement())

    def gap(self, direction: Direction = Direction.TO_BROKER, size: int = 100) -> None:
        """Lose bytes."""
        self._add(Kind.GAP, direction=direction, true_length=size)

    def invalid_size(self, size: int, direction: Direction = Direction.TO_BROKER) -> None:
        """Add a length that no frame has."""
        self._add(Kind.INVALID_SIZE, direction=direction, true_length=size)

    def not_kafka(self, beginning: bytes, *, named_port: bool = False, responded: bool = False) -> None:
        """Begin with four bytes that are no request, before the end is added."""
        flags = Flag.NAMED_PORT if named_port else Flag.NONE
        flags |= Flag.RESPONDED if responded else Flag.NONE
        self._add(Kind.NOT_KAFKA, frame=beginning, flags=flags, direction=Direction.TO_BROKER)

    def close(self, closing: Closing = Closing.FIN, first: Direction = Direction.TO_BROKER) -> None:
        """End the connection, or give it up; `first` is the direction of the first FIN or RST."""
        self._add(Kind.CLOSED, closing=closing, direction=first)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.at += int(seconds * SECOND)

    def cut_last(self, kept: int) -> None:
        """Keep only the first bytes of the last frame."""
        last = self.records[-1]
        kwargs = {name: getattr(last, name) for name in Record.__slots__}
        self.records[-1] = Record(**kwargs | {"frame": last.frame[:kept]})

    def _add(self, kind: Kind, **what: Any) -> Record:
        self.at += 1_000_000
        frame = what.get("frame", b"")
        what.setdefault("true_length", len(frame))
        record = Record(
            kind=kind,
            connection=self.connection,
            run=1,
            sequence=len(self.records) + 1,
            captured_at=self.at,
            client=Endpoint(self.client),
            server=Endpoint(self.server),
            position=1_000 * (len(self.records) + 1),
            **what,
        )
        self.records.append(record)
        return record


def advertisement(error_code: int = 0) -> dict[str, Any]:
    """The body of an ApiVersions response."""
    ranges = [
        {"apiKey": key, "minVersion": lowest, "maxVersion": highest}
        for key, (lowest, highest) in ADVERTISED.items()
    ]
    return {"errorCode": error_code, "apiKeys": ranges if error_code == 0 else []}
