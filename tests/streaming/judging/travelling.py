"""Windows of exchanges as a bucket receives them: packed by the decode stage, and unpacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from decoders.frame.record import Record
from decoders.schema.registry import default_schemas
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import Statement, Window
from streaming.judging.bucket_input import BucketInput, PackedWindows, pack_input, unpack_input
from tests.exchange import Exchange
from tests.expectations.conversation.scalar_windows import in_file, windows_of


def observed(records: Sequence[Record]) -> list[Window]:
    """Return what records say, in one window for each connection."""
    return windows_of(default_schemas(), [(record, in_file("exchange", record)) for record in records])


def windows(exchange: Exchange, begin: int = 0, end: int | None = None) -> list[Window]:
    """Return what an exchange says in some of its records."""
    return observed(exchange.records[begin:end])


def in_batches(exchange: Exchange, size: int) -> list[list[list[Window]]]:
    """Return what an exchange of any number of connections says, in batches of so many records."""
    begins = range(0, len(exchange.records), size)
    return [[windows(exchange, begin, begin + size)] for begin in begins]


def on(connection: bytes, found: list[Window], **changes: Any) -> list[Window]:
    """Return the same windows on another connection, whose ID is the byte 16 times."""
    return [
        window._replace(connection=msgspec.structs.replace(window.connection, id=connection * 16, **changes))
        for window in found
    ]


def bucket_input(windows: Iterable[Window]) -> BucketInput:
    """Combine windows into one input with one table of statements."""
    combined, statements = list[Window](), dict[int, Statement]()
    for window in windows:
        first = len(statements)
        statements |= {number + first: statement for number, statement in window.statements.items()}
        numbers = [number + first for number in window.numbers]
        combined.append(window._replace(numbers=numbers, statements=statements))
    return BucketInput(PackedWindows.of(WindowColumns.of(combined)))


def travelled(windows: Iterable[Window]) -> list[WindowColumns]:
    """Pack and unpack windows, in parts: the n-th window of each connection is in the n-th part."""
    parts, counts = list[list[Window]](), Counter[bytes]()
    for window in windows:
        at = counts[window.connection.id]
        counts[window.connection.id] += 1
        if at == len(parts):
            parts.append([])
        parts[at].append(window)
    return [unpack_input(pack_input(bucket_input(part))).columns() for part in parts]


def bucket_of(identifier: bytes, buckets: int) -> int:
    """Return the bucket of a connection, given its ID, or of an identity, given its digest."""
    return int.from_bytes(identifier[:4]) % buckets
