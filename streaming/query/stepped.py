"""What the stage of connections passes to that of identities: reports, which pass through it, and claims.

A row costs some ten microseconds of a core between two stages, and each bucket of connections has claims for
nearly every bucket of identities when many connections open. So the claims of all buckets of a task travel
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from pyspark.sql import Row

from expectations.identity.claim import Claim
from streaming.judging.identity_step import bucket_of_identity
from streaming.judging.report import Report, pack_report
from streaming.query.partition_keys import key_of_bucket

STEPPED_SCHEMA: Final = "identities int, stepped binary"
PASS_THROUGH_KEYS: Final = 16
"""Number of keys for reports that pass through: a key costs round trips, however many reports it has."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes of claims that are kept until the end of a task."""


class Stepped(msgspec.Struct):
    """A row: a packed report to pass through, or claims to judge, in as many parts as buckets made them."""

    report: bytes | None = None
    claims: list[list[Claim]] = []


class _Packed(msgspec.Struct):
    """A row of claims, of which each part is packed."""

    claims: list[msgspec.Raw]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Stepped)


def report_row(report: Report) -> Row:
    """Return a report, without its claims, as a row."""
    return _row(report.bucket % PASS_THROUGH_KEYS, Stepped(report=pack_report(report)))


def unpack_stepped(packed: bytes) -> Stepped:
    """Return what a row holds."""
    return _DECODER.decode(packed)


class TaskClaims:
    """The claims of a task, packed, by one of `buckets` buckets of identities. `size` counts their bytes."""

    def __init__(self, buckets: int) -> None:
        self.size = 0
        self._buckets = buckets
        self._packed: dict[int, list[msgspec.Raw]] = {}

    def add(self, claims: Iterable[Claim]) -> None:
        """Add claims."""
        divided: dict[int, list[Claim]] = {}
        for claim in claims:
            divided.setdefault(bucket_of_identity(claim.identity, self._buckets), []).append(claim)
        for number, part in divided.items():
            packed = _ENCODER.encode(part)
            self.size += len(packed)
            self._packed.setdefault(number, []).append(msgspec.Raw(packed))

    def rows(self) -> Iterator[Row]:
        """Yield the claims as rows, one for each bucket of identities, and forget them."""
        packed, self._packed, self.size = self._packed, {}, 0
        for number, parts in packed.items():
            yield _row(number, _Packed(parts))


def _row(bucket: int, stepped: Stepped | _Packed) -> Row:
    return Row(identities=key_of_bucket(bucket), stepped=_ENCODER.encode(stepped))
