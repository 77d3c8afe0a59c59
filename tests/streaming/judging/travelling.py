"""Windows as a bucket receives them: packed by the decode stage, and unpacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import Statement, Window
from streaming.judging.bucket_input import BucketInput, PackedWindows, pack_input, unpack_input


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
