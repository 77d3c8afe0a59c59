"""What the fast path has counted of the bytes of each port goes to the ledgers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from decoders.wire.columnar.fast_path import PORT_BYTES
from decoders.wire.ledger import Ledger, SkipReason

_SKIPPED = {
    "after_hole": SkipReason.AFTER_HOLE,
    "duplicate": SkipReason.DUPLICATE,
    "opaque": SkipReason.OPAQUE,
    "excluded": SkipReason.EXCLUDED,
    "encrypted": SkipReason.ENCRYPTED,
    "tls": SkipReason.TLS,
}
"""The reason for which bytes are skipped, by the field that counts them."""


def move_counts(counts: NDArray[np.void], ledgers: Iterable[Ledger]) -> None:
    """Add each row, of dtype PORT_BYTES, to the ledger at the same place, and set all rows to zero."""
    for ledger, row in zip(ledgers, counts, strict=True):
        ledger.capture(int(row["captured"]))
        ledger.frame(int(row["framed"]))
        ledger.lose(int(row["lost"]))
        for field, reason in _SKIPPED.items():
            ledger.skip(reason, int(row[field]))
    counts[:] = np.zeros((), PORT_BYTES)
