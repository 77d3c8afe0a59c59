"""The keys by which Spark knows buckets: chosen so that each of its tasks gets as many of them.

Spark gives a key to a task by its hash, Murmur3 in 32 bits. That of the numbers 0 to 255 gives one of two
tasks 145 of them and the other 111, and a batch waits for the longer one. The hash of one whole number can
be turned round: the key of a bucket is the number whose hash is the bucket's own. So Spark deals buckets out
in turn, whatever the number of tasks. Checkpoints made before have the bucket's number as key, and keep it.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import Final

MARK: Final = "kipwatch-keys-dealt"
"""The file of a checkpoint whose keys are dealt."""
_BITS: Final = 32
_WORD: Final = 1 << _BITS
_SEED: Final = 42
"""Spark's."""
_BYTES: Final = 4
"""The length of what is hashed."""
_KEY_FACTORS: Final = (0xCC9E2D51, 0x1B873593)
_KEY_TURN: Final = 15
_HASH_TURN: Final = 13
_HASH_FACTOR, _HASH_TERM = 5, 0xE6546B64
_END_FACTORS: Final = (0x85EBCA6B, 0xC2B2AE35)
_END_SHIFTS: Final = (16, 13, 16)


class Keys(Enum):
    """How the key of a bucket comes from its number, which is 0 or more."""

    DEALT = "dealt"
    NUMBERED = "numbered"

    def key(self, bucket: int) -> int:
        """Give the key of a bucket, a signed number of 32 bits."""
        return bucket if self is Keys.NUMBERED else key_with_hash(bucket)

    def bucket(self, key: int) -> int:
        """Give the bucket of a key; for one that is no bucket's, a number that is none's."""
        return key if self is Keys.NUMBERED else spark_hash(key)


@functools.cache
def spark_hash(key: int) -> int:
    """Hash a signed number of 32 bits as Spark does, to another such number."""
    word = _turned(key * _KEY_FACTORS[0], _KEY_TURN) * _KEY_FACTORS[1]
    word = _turned(word ^ _SEED, _HASH_TURN) * _HASH_FACTOR + _HASH_TERM
    word = _mixed(word ^ _BYTES, _END_SHIFTS[0]) * _END_FACTORS[0]
    word = _mixed(word, _END_SHIFTS[1]) * _END_FACTORS[1]
    return _signed(_mixed(word, _END_SHIFTS[2]))


@functools.cache
def key_with_hash(hashed: int) -> int:
    """Give the number that Spark hashes to this one: each step of the hash undone, the last one first."""
    word = _unmixed(hashed, _END_SHIFTS[2]) * _inverse(_END_FACTORS[1])
    word = _unmixed(word, _END_SHIFTS[1]) * _inverse(_END_FACTORS[0])
    word = _unmixed(word, _END_SHIFTS[0]) ^ _BYTES
    word = _turned((word - _HASH_TERM) * _inverse(_HASH_FACTOR), _BITS - _HASH_TURN) ^ _SEED
    word = _turned(word * _inverse(_KEY_FACTORS[1]), _BITS - _KEY_TURN)
    return _signed(word * _inverse(_KEY_FACTORS[0]))


def _turned(word: int, bits: int) -> int:
    word %= _WORD
    return (word << bits | word >> _BITS - bits) % _WORD


def _mixed(word: int, bits: int) -> int:
    """Mix the upper bits into the lower ones."""
    word %= _WORD
    return word ^ word >> bits


def _unmixed(word: int, bits: int) -> int:
    """Take them out again, where `bits` are more than a third of all."""
    word %= _WORD
    return word ^ word >> bits ^ word >> 2 * bits


def _inverse(factor: int) -> int:
    return pow(factor, -1, _WORD)


def _signed(word: int) -> int:
    return (word + _WORD // 2) % _WORD - _WORD // 2
