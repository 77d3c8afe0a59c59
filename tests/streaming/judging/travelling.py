"""Windows as they come to a bucket: packed by the decode stage, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable

from expectations.conversation.window import Window
from streaming.judging.bucket_input import BucketInput, pack_input, unpack_input


def bucket_input(windows: Iterable[Window]) -> BucketInput:
    """Put windows together, with the statements of all in one table."""
    given = BucketInput()
    for window in windows:
        first = len(given.statements)
        statements = {number + first: statement for number, statement in window.statements.items()}
        given.add(
            window._replace(numbers=[number + first for number in window.numbers], statements=statements)
        )
    return given


def travelled(windows: Iterable[Window]) -> list[Window]:
    """Send windows to a bucket."""
    return list(unpack_input(pack_input(bucket_input(windows))).windows())
