"""Windows as a bucket receives them: packed by the decode stage, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable

from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.statement import Statement
from expectations.conversation.window import Window
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


def travelled(windows: Iterable[Window]) -> list[Window]:
    """Pack and unpack windows."""
    return list(unpack_input(pack_input(bucket_input(windows))).windows())


def travelled_columns(windows: Iterable[Window]) -> WindowColumns:
    """Pack and unpack windows, and leave them in columns."""
    return unpack_input(pack_input(bucket_input(windows))).columns()
