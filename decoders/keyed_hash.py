"""Compiled: keyed hashes of values that untrusted peers choose.

The hash of some words is multilinear: each half of a word is multiplied by a key of its own, and the upper
32 bits of the sum are the hash. Different words have equal hashes for one in 2^32 choices of the keys, so
nobody who does not know the keys can choose words that share a slot (Lemire and Kaser, "Strongly universal
string hashing is fast"). A secret that a mixing function only begins with is not enough: words that differ in
their upper bits then share a slot whatever the secret is.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled, inlined

MOST_WORDS: Final = 16
"""Words that are hashed at once."""
_HALF: Final = np.uint64(32)
_LOWER: Final = np.uint64(0xFFFFFFFF)
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class HashKeys(NamedTuple):
    """The factor of the hash so far, and in `halves` two for each word: of its lower and its upper half."""

    before: np.uint64
    halves: NDArray[np.uint64]

    @classmethod
    def of(cls, secret: bytes) -> HashKeys:
        """Derive keys from a secret."""
        before, *halves = np.frombuffer(hashlib.shake_128(secret).digest(8 + 16 * MOST_WORDS), np.uint64)
        return cls(before, np.array(halves))


@inlined
def hashed(keys: Any, before: Any, words: Any) -> Any:
    """Return the hash, a uint64 below 2^32, of integers, at most MOST_WORDS.

    `before` is the hash of the words before them, 0 if there are none.
    """
    total = keys.before * before
    for at in range(len(words)):
        bits = np.uint64(words[at])
        total += keys.halves[2 * at] * (bits & _LOWER) + keys.halves[2 * at + 1] * (bits >> _HALF)
    return total >> _HALF


@inlined
def first_slot(value: Any, slots: int) -> Any:
    """Return the slot (uint64) at which probing for a hash begins; the number of slots is a power of two.

    The hash is mixed first: hashes of consecutive numbers differ by one step, which may be a multiple of
    `slots`, and then all of them would share a slot.
    """
    spread = (value ^ (value >> np.uint64(15))) * _SPREAD
    return (spread >> _HALF) & np.uint64(slots - 1)


class FingerprintKeys(NamedTuple):
    """Two independent keys: a fingerprint is the hashes by both."""

    upper: HashKeys
    lower: HashKeys

    @classmethod
    def of(cls, secret: bytes) -> FingerprintKeys:
        """Derive keys from a secret."""
        return cls(HashKeys.of(b"upper" + secret), HashKeys.of(b"lower" + secret))


def fingerprints(keys: FingerprintKeys, words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a fingerprint (int64) of each row, of at most MOST_WORDS words.

    Different rows have equal fingerprints for one in 2^64 choices of the keys.
    """
    found = np.empty(len(words), np.int64)
    _fingerprint(keys, words, found)
    return found


@compiled(None)
def _fingerprint(keys: Any, words: Any, found: Any) -> None:
    for row in range(len(words)):
        upper = hashed(keys.upper, np.uint64(0), words[row])
        lower = hashed(keys.lower, np.uint64(0), words[row])
        found[row] = np.int64(upper << _HALF | lower)
