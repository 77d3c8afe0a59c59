"""Spark grouping keys of buckets, chosen so that Spark spreads the buckets evenly over its tasks.

Spark assigns a key to a task by its hash (Murmur3, 32 bits, modulo the number of tasks). With the keys 0 to
255 one of two tasks gets 145 buckets and the other 111, and a batch waits for the slower task. Murmur3 of a
single integer can be inverted, so the key of a bucket is the integer whose hash is the bucket's number. Spark
then assigns the buckets round-robin, for any number of tasks.
"""

from __future__ import annotations

import functools
from typing import Final

_BITS: Final = 32
_WORD: Final = 1 << _BITS
_SEED: Final = 42
"""The seed Spark hashes with."""
_BYTES: Final = 4
"""Length of the hashed value."""
_KEY_FACTORS: Final = (0xCC9E2D51, 0x1B873593)
_KEY_ROTATION: Final = 15
_HASH_ROTATION: Final = 13
_HASH_FACTOR, _HASH_TERM = 5, 0xE6546B64
_END_FACTORS: Final = (0x85EBCA6B, 0xC2B2AE35)
_END_SHIFTS: Final = (16, 13, 16)


def key_of_bucket(bucket: int) -> int:
    """Return the grouping key of a bucket, a signed 32-bit integer."""
    return inverse_spark_hash(bucket)


def bucket_of_key(key: int) -> int:
    """Return the bucket of a grouping key."""
    return spark_hash(key)


@functools.cache
def spark_hash(key: int) -> int:
    """Return Spark's hash of a signed 32-bit integer, a signed 32-bit integer too."""
    word = _rotated(key * _KEY_FACTORS[0], _KEY_ROTATION) * _KEY_FACTORS[1]
    word = _rotated(word ^ _SEED, _HASH_ROTATION) * _HASH_FACTOR + _HASH_TERM
    word = _mixed(word ^ _BYTES, _END_SHIFTS[0]) * _END_FACTORS[0]
    word = _mixed(word, _END_SHIFTS[1]) * _END_FACTORS[1]
    return _signed(_mixed(word, _END_SHIFTS[2]))


@functools.cache
def inverse_spark_hash(hashed: int) -> int:
    """Return the integer with this hash: undoes the steps of `spark_hash`, the last one first."""
    word = _unmixed(hashed, _END_SHIFTS[2]) * _inverse(_END_FACTORS[1])
    word = _unmixed(word, _END_SHIFTS[1]) * _inverse(_END_FACTORS[0])
    word = _unmixed(word, _END_SHIFTS[0]) ^ _BYTES
    word = _rotated((word - _HASH_TERM) * _inverse(_HASH_FACTOR), _BITS - _HASH_ROTATION) ^ _SEED
    word = _rotated(word * _inverse(_KEY_FACTORS[1]), _BITS - _KEY_ROTATION)
    return _signed(word * _inverse(_KEY_FACTORS[0]))


def _rotated(word: int, bits: int) -> int:
    word %= _WORD
    return (word << bits | word >> _BITS - bits) % _WORD


def _mixed(word: int, bits: int) -> int:
    """XOR the upper bits into the lower ones."""
    word %= _WORD
    return word ^ word >> bits


def _unmixed(word: int, bits: int) -> int:
    """Undo `_mixed`, for shifts of more than a third of the word."""
    word %= _WORD
    return word ^ word >> bits ^ word >> 2 * bits


def _inverse(factor: int) -> int:
    return pow(factor, -1, _WORD)


def _signed(word: int) -> int:
    return (word + _WORD // 2) % _WORD - _WORD // 2
