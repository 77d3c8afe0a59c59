"""What strangers choose shares no slots, whatever it has in common and whatever the keys are."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from decoders.keyed_hash import FingerprintKeys, HashKeys, fingerprints, first_slot, hashed

WORDS, BITS = 1 << 14, 8
MIRRORED = np.uint64(1 << 63 | 1 << 31)
"""Flips the upper bits of both halves, as an XOR, product and fold do with a word whose upper bit flips."""


def in_python(function: Any) -> Any:
    """The function before it is compiled, for whole columns of words."""
    return function.py_func


def sharing(secret: bytes, *words: NDArray[np.uint64]) -> float:
    """How many others a slot's first probe meets on average: half of the words for each slot, by chance."""
    value = in_python(hashed)(HashKeys.of(secret), np.uint64(0), words)
    slots = in_python(first_slot)(value, 2 * len(value)).astype(np.int64)
    taken = np.bincount(slots)
    return float((taken * (taken - 1)).sum() / len(value))


@pytest.mark.parametrize("secret", [b"", b"another", bytes(16)])
def test_numbers_that_differ_in_some_bits_share_few_slots(secret: bytes) -> None:
    numbers = np.arange(WORDS, dtype=np.uint64)
    for shift, leading in product(range(51), range(3)):
        words = [np.full(WORDS, 7, np.uint64)] * leading + [numbers << np.uint64(shift)]
        assert sharing(secret, *words) < 0.7
        assert sharing(secret, *words, words[0]) < 0.7


@pytest.mark.parametrize("secret", [b"", b"another", bytes(16)])
def test_sequences_whose_differences_cancel_each_other_share_few_slots(secret: bytes) -> None:
    numbers = np.arange(1 << BITS, dtype=np.uint64)
    flipped = [numbers >> np.uint64(bit) & np.uint64(1) for bit in range(BITS)]
    words = [word for bits in flipped for word in (bits << np.uint64(63), bits * MIRRORED)]
    assert sharing(secret, *words) < 0.7


@pytest.mark.parametrize("secret", [b"", b"another", bytes(16)])
def test_a_million_rows_have_a_fingerprint_each(secret: bytes) -> None:
    """By one hash of 32 bits, some hundred of them would share theirs."""
    rows = np.arange(1 << 20, dtype=np.int64)[:, np.newaxis] * np.array([1, -(1 << 40)])
    found = fingerprints(FingerprintKeys.of(secret), rows)
    assert len(np.unique(found)) == len(rows)
    assert np.array_equal(fingerprints(FingerprintKeys.of(secret), rows[::-1].copy()), found[::-1])
