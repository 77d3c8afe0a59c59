"""Packed claims: as msgpack, with rows that say what is asked of them before they can be judged.

Most claims are the only ones on their identity, and no rule judges these when they come. So claims travel and
are stored as bytes, and only those that a rule judges become objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.memory import bounds_of, gathered
from expectations.identity.claim import DIGEST_BYTES, Claim

CLAIM_ROW: Final = np.dtype(
    [
        ("digest", f"V{DIGEST_BYTES}"),
        ("connection", f"V{ID_BYTES}"),
        ("until", "<i8"),
        ("size", "<i4"),
        ("kind", "u1"),
    ]
)
"""The dtype of a claim's row: the digest of its identity, values of the claim, and its packed size in bytes.

The connection is NO_CONNECTION if the claim belongs to none.
"""
NO_CONNECTION: Final = bytes(ID_BYTES)
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Claim)


class PackedClaims(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Claims as msgpack, one behind the other in `packed`, and the bytes of their `rows`, in the same order.

    Iterating decodes the claims.
    """

    rows: bytes = b""
    packed: bytes = b""

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> PackedClaims:
        """Pack claims."""
        claims = list(claims)
        packed = [_ENCODER.encode(claim) for claim in claims]
        rows = [
            (claim.identity.digest, claim.connection or NO_CONNECTION, claim.until, size, claim.identity.kind)
            for claim, size in zip(claims, map(len, packed), strict=True)
        ]
        return cls(np.array(rows, CLAIM_ROW).tobytes(), b"".join(packed))

    @classmethod
    def joined(cls, parts: Iterable[PackedClaims]) -> PackedClaims:
        """Return the claims of all parts, in order."""
        parts = list(parts)
        return cls(b"".join([part.rows for part in parts]), b"".join([part.packed for part in parts]))

    def __len__(self) -> int:
        return len(self.rows) // CLAIM_ROW.itemsize

    def __iter__(self) -> Iterator[Claim]:
        for begin, end in pairwise(self.bounds.tolist()):
            yield _DECODER.decode(self.packed[begin:end])

    @property
    def table(self) -> NDArray[Any]:
        """The rows as an array of CLAIM_ROW."""
        return np.frombuffer(self.rows, CLAIM_ROW)

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The offset of each claim in `packed`, with the end as the last."""
        return bounds_of(self.table["size"])

    def chosen(self, numbers: NDArray[np.int64]) -> PackedClaims:
        """Return the claims with some numbers, in the order of these."""
        rows = self.table[numbers]
        packed, _ = gathered(
            np.frombuffer(self.packed, np.uint8), self.bounds[:-1][numbers], rows["size"].astype(np.int64)
        )
        return PackedClaims(rows.tobytes(), packed.tobytes())
