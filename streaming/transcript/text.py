"""What `kipwatch decode` prints: frames as text, with their fields indented, and byte accounts."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Self

import msgspec

from decoders.frame.record import Direction, Flag, Kind, Record
from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.frame_detector import protocol_of
from decoders.wire.ledger import Ledger
from decoders.wire.segment import SocketAddress
from expectations.conversation.texts import printable
from streaming.transcript.frame import DecodedFrame, Oddness

_INDENT = "    "
_FIRST_INDENT = 2
_MICROSECONDS = 1_000
_SECOND = 1_000_000_000


def frame_lines(frame: DecodedFrame, api_names: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of a frame; `api_names`, by key, explain the keys in an ApiVersions response."""
    yield _headline(frame)
    margin = _INDENT * _FIRST_INDENT
    if frame.failure:
        yield f"{margin}cannot be decoded: {_oddness(frame.failure)}"
    for remark in frame.remarks:
        yield f"{margin}remark: {_oddness(remark)}"
    if frame.body is not None:
        yield from _fields(frame.body, margin, api_names)


def event_line(record: Record) -> str | None:
    """Return the line of a connection's event; None for a record that is no such event."""
    text = {
        Kind.OPENED: "joined midway" if Flag.MID_STREAM in record.flags else "opened",
        Kind.CLOSED: f"closed ({record.closing.name.lower()})",
        Kind.GAP: f"{record.true_length or 'some'} bytes were not captured",
        Kind.INVALID_SIZE: f"not a frame: its length would be {record.true_length}",
        Kind.NOT_KAFKA: f"not Kafka: it began with {protocol_of(record.frame)}",
    }.get(record.kind)
    lead = _lead(record.sequence, record.captured_at, record.client, record.server, record.direction)
    return f"{lead}  -- {text}" if text else None


def _headline(frame: DecodedFrame) -> str:
    is_from_broker = frame.kind == "response" or (
        frame.body is not None and frame.body.get("sender") == "broker"
    )
    direction = Direction.TO_CLIENT if is_from_broker else Direction.TO_BROKER
    lead = _lead(frame.sequence, frame.captured_at, frame.client, frame.server, direction)
    return "  ".join([lead, _what(frame), *_header(frame)])


def _lead(sequence: int, captured_at: int, client: str, server: str, direction: Direction) -> str:
    arrow = {Direction.TO_BROKER: "→", Direction.TO_CLIENT: "←"}.get(direction, "↔")
    return f"{sequence:>6}  {_time(captured_at)}  {client} {arrow} {server}"


def _time(captured_at: int) -> str:
    seconds, rest = divmod(captured_at, _SECOND)
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{rest // _MICROSECONDS:06}"


def _what(frame: DecodedFrame) -> str:
    if frame.kind == "sasl_token":
        return "SASL token"
    if frame.api_key is None:
        return f"unknown {frame.kind}"
    return f"{frame.api or f'API {frame.api_key}'} v{frame.api_version} {frame.kind}"


def _header(frame: DecodedFrame) -> Iterator[str]:
    if frame.correlation_id is not None:
        yield f"#{frame.correlation_id}"
    if frame.header_version is not None:
        yield f"header v{frame.header_version}"
    if frame.client_id is not None:
        yield f"client_id={_word(frame.client_id)}"
    if frame.client_instance_id is not None:
        yield f"client_instance_id={frame.client_instance_id}"
    if frame.client_software_name is not None:
        yield f"software={_word(frame.client_software_name)}/{_word(frame.client_software_version or '')}"


def _word(text: str) -> str:
    """Quote a text whose end would not be visible."""
    shown = printable(text)
    return shown if shown and " " not in shown else f'"{shown}"'


def _oddness(oddness: Oddness) -> str:
    field = f" at {oddness.path}" if oddness.path else ""
    place = "" if oddness.offset is None else f", byte {oddness.offset}"
    return f"{oddness.reason}{field}{place}"


def _fields(values: Mapping[str, Any], margin: str, api_names: Mapping[int, str]) -> Iterator[str]:
    for name, value in values.items():
        if _is_flat(value):
            yield f"{margin}{name}: {_scalar(name, value, api_names)}"
        elif isinstance(value, Mapping):
            yield f"{margin}{name}:"
            yield from _fields(value, margin + _INDENT, api_names)
        else:
            yield f"{margin}{name}: {len(value)}"
            for element in value:
                yield from _element(element, margin, api_names)


def _element(element: Mapping[str, Any], margin: str, api_names: Mapping[int, str]) -> Iterator[str]:
    """Write a struct of an array after a dash: in one line if it holds no other struct."""
    if all(map(_is_flat, element.values())):
        fields = (f"{name}: {_scalar(name, value, api_names)}" for name, value in element.items())
        yield f"{margin}  - {', '.join(fields)}"
        return
    inner = margin + _INDENT
    for position, line in enumerate(_fields(element, inner, api_names)):
        yield f"{margin}  - {line.removeprefix(inner)}" if position == 0 else line


def _is_flat(value: Any) -> bool:
    """Whether a value is written in one line: neither a struct nor an array of structs."""
    if isinstance(value, list):
        return not any(isinstance(element, Mapping) for element in value)
    return not isinstance(value, Mapping)


def _scalar(name: str, value: Any, api_names: Mapping[int, str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_scalar(name, element, api_names) for element in value)}]"
    if isinstance(value, str):
        return f'"{printable(value)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    named = api_names.get(value) if name == "apiKey" else None
    return f"{value} ({named})" if named else str(value)


class ByteAccount(msgspec.Struct, frozen=True):
    """Bytes of captured TCP payload by fate: captured = framed + the sum of skipped, which is by reason.

    `lost` bytes were never captured. Without client and server it accounts for bytes outside connections.
    """

    client: str | None
    server: str | None
    captured: int
    framed: int
    skipped: dict[str, int]
    lost: int

    @classmethod
    def of(cls, client: SocketAddress, server: SocketAddress, ledger: Ledger) -> Self:
        """Make the account of a connection that has ended, when none of its bytes are pending."""
        ends = str(client.endpoint), str(server.endpoint)
        return cls(*ends, ledger.captured, ledger.framed, _skipped(ledger), ledger.lost)

    @property
    def line(self) -> str:
        """The account as a person reads it."""
        name = f"{self.client} → {self.server}" if self.client else "no connection"
        fates = {"framed": self.framed, **self.skipped}
        sum_of = " + ".join(f"{size} {fate}" for fate, size in fates.items())
        return f"{name}: {self.captured} captured = {sum_of}; {self.lost} lost"


def accounts(
    schemas: Schemas,
    batches: Iterable[PacketBatch],
    ports: Collection[int],
    max_frame: int,
    key_log: KeyLog | None = None,
) -> Iterator[ByteAccount]:
    """Yield the account of each connection when it ends, and last that of bytes outside connections."""
    ended: list[ByteAccount] = []
    tracker = ColumnarTracker(
        schemas,
        ports=ports,
        run=0,
        secret=secrets.token_bytes(),
        max_frame=max_frame,
        key_log=key_log,
        on_end=lambda *connection: ended.append(ByteAccount.of(*connection)),
    )
    total = _Sum()
    for batch in batches:
        tracker.feed(batch)
        yield from total.added(ended)
    tracker.finish()
    yield from total.added(ended)
    yield total.remainder(tracker.ledger)


class _Sum:
    """The sum of all accounts so far."""

    def __init__(self) -> None:
        self._captured = self._framed = self._lost = 0
        self._skipped: Counter[str] = Counter()

    def added(self, ended: list[ByteAccount]) -> Iterator[ByteAccount]:
        """Add the accounts of a list to the sum, yield them, and clear the list."""
        for account in ended:
            self._captured += account.captured
            self._framed += account.framed
            self._lost += account.lost
            self._skipped.update(account.skipped)
            yield account
        ended.clear()

    def remainder(self, ledger: Ledger) -> ByteAccount:
        """Return the account of the bytes that the whole capture's ledger has beyond the accounts so far."""
        skipped = {
            name: size for name, total in _skipped(ledger).items() if (size := total - self._skipped[name])
        }
        framed, lost = ledger.framed - self._framed, ledger.lost - self._lost
        return ByteAccount(None, None, ledger.captured - self._captured, framed, skipped, lost)


def _skipped(ledger: Ledger) -> dict[str, int]:
    return {str(reason): size for reason, size in sorted(ledger.skipped.items()) if size}
