"""Windows as a bucket receives them: packed by the decode stage, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable

from expectations.conversation.window import Window
from streaming.judging.bucket_input import BucketInput, pack_input, unpack_input


def bucket_input(windows: Iterable[Window]) -> BucketInput:
    """Combine windows into one input with one table of statements."""
    combined = BucketInput()
    for window in windows:
        first = len(combined.statements)
        statements = {number + first: statement for number, statement in window.statements.items()}
        combined.add(
            window._replace(numbers=[number + first for number in window.numbers], statements=statements)
        )
    return combined


def travelled(windows: Iterable[Window]) -> list[Window]:
    """Pack and unpack windows."""
    return list(unpack_input(pack_input(bucket_input(windows))).windows())
