"""The rows between the stages: their keys, and what the second stage passes to the third.

**Keys.** Spark assigns a key to a task by its hash (Murmur3, 32 bits, modulo the number of tasks). With the
keys 0 to 255 one of two tasks gets 145 buckets and the other 111, and a batch waits for the slower task.
Murmur3 of a single integer can be inverted, so the key of a bucket is the integer whose hash is the bucket's
number. Spark then assigns the buckets round-robin, for any number of tasks.

**Rows.** The stage of connections passes reports, which the stage of identities lets through, and claims,
which it judges. A row costs some ten microseconds of a core between two stages, and each bucket of
connections has claims for nearly every bucket of identities when many connections open. So the claims of all
buckets of a task travel together.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

import msgspec
from pyspark.sql import Row

from expectations.identity.packed_claims import PackedClaims
from streaming.judging.bucket_input import buckets_of
from streaming.judging.part import groups
from streaming.judging.report import Report, pack_report

STEPPED_SCHEMA: Final = "identities int, stepped binary"
PASS_THROUGH_KEYS: Final = 16
"""Number of keys for reports that pass through: a key costs round trips, however many reports it has."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes of claims that are kept until the end of a task."""
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


@functools.cache
def bucket_of_key(key: int) -> int:
    """Return the bucket of a grouping key: Spark's hash of it, a signed 32-bit integer like the key."""
    word = _rotated(key * _KEY_FACTORS[0], _KEY_ROTATION) * _KEY_FACTORS[1]
    word = _rotated(word ^ _SEED, _HASH_ROTATION) * _HASH_FACTOR + _HASH_TERM
    word = _mixed(word ^ _BYTES, _END_SHIFTS[0]) * _END_FACTORS[0]
    word = _mixed(word, _END_SHIFTS[1]) * _END_FACTORS[1]
    return _signed(_mixed(word, _END_SHIFTS[2]))


@functools.cache
def key_of_bucket(bucket: int) -> int:
    """Return the grouping key of a bucket: undoes the steps of `bucket_of_key`, the last one first."""
    word = _unmixed(bucket, _END_SHIFTS[2]) * _inverse(_END_FACTORS[1])
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


class Stepped(msgspec.Struct):
    """A row: a packed report to pass through, or claims to judge."""

    report: bytes | None = None
    claims: PackedClaims = PackedClaims()


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Stepped)


def report_row(report: Report) -> Row:
    """Return a report, without its claims, as a row."""
    return _row(report.bucket % PASS_THROUGH_KEYS, Stepped(report=pack_report(report)))


def unpack_stepped(packed: bytes) -> Stepped:
    """Unpack a row."""
    return _DECODER.decode(packed)


class TaskClaims:
    """Collects a task's claims and divides them among `buckets` buckets of identities.

    `size` counts their bytes.
    """

    def __init__(self, buckets: int) -> None:
        self.size = 0
        self._buckets = buckets
        self._parts: list[PackedClaims] = []

    def add(self, claims: PackedClaims) -> None:
        """Add the claims of one bucket of connections."""
        self._parts.append(claims)
        self.size += len(claims.packed)

    def rows(self) -> Iterator[Row]:
        """Yield the claims as rows, one for each bucket of identities, and forget them."""
        claims, self._parts, self.size = PackedClaims.joined(self._parts), [], 0
        for (number,), places in groups(buckets_of(claims.table["digest"].tobytes(), self._buckets)):
            yield _row(number, Stepped(claims=claims.chosen(places)))


def _row(bucket: int, stepped: Stepped) -> Row:
    return Row(identities=key_of_bucket(bucket), stepped=_ENCODER.encode(stepped))
