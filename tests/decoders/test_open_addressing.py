"""Grouping takes as long for texts that strangers choose as for any others."""

from __future__ import annotations

import time
from random import Random

import numpy as np

from decoders.open_addressing import grouped
from tests.expectations.conversation.columnar.scalar_reads import HASH_KEYS

TEXTS, LENGTH = 20_000, 8


def seconds(texts: list[bytes]) -> float:
    """The processor time of grouping texts, all different."""
    data = np.frombuffer(b"".join(texts), np.uint8)
    places = np.column_stack((np.arange(TEXTS) * LENGTH, np.full(TEXTS, LENGTH)))
    begin = time.process_time()
    groups = grouped(HASH_KEYS, np.empty((TEXTS, 0), np.int64), data, places)
    taken = time.process_time() - begin
    assert len(groups.first) == TEXTS
    return taken


def test_chosen_texts_take_no_longer_than_random_ones() -> None:
    """They differ in their last bytes, the upper ones of a word."""
    random = Random(7)
    others = [number.to_bytes(3) + random.randbytes(LENGTH - 3) for number in range(TEXTS)]
    chosen = [b"client" + number.to_bytes(2) for number in range(TEXTS)]
    seconds(others)
    assert min(seconds(chosen) for _ in range(3)) < 10 * min(seconds(others) for _ in range(3))
