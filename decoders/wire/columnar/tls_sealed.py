"""Compiled: where each TLS record of a window is, its nonce, and what is authenticated beside its ciphertext.

`decoders.tls.protection.Protection.open` does the same for one record.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.tls.key_schedule import IV_SIZE
from decoders.tls.records import HEADER_SIZE

_NUMBER_SIZE: Final = 8
_ASSOCIATED_SIZE: Final = _NUMBER_SIZE + HEADER_SIZE
"""Bytes that TLS 1.2 authenticates: the number, and a header with the size of the plaintext."""


def sealed_records(
    streams: NDArray[Any],
    records: NDArray[Any],
    flows: NDArray[Any],
    ciphertext: NDArray[np.uint8],
    vectors: NDArray[np.uint8],
) -> list[list[Any]]:
    """Return the columns of `decoders.tls.protection.SealedRecord` behind the first one.

    `records` are those of the streams, in their order; `vectors` has shape (streams, IV_SIZE).
    """
    places = np.empty((4, len(records)), np.int64)
    nonces = np.empty((len(records), IV_SIZE), np.uint8)
    associated = np.empty((len(records), _ASSOCIATED_SIZE), np.uint8)
    _seal(streams, records, flows, ciphertext, vectors, places, nonces, associated)
    headers = _as_bytes(associated[:, :HEADER_SIZE])
    is_tls_1_3 = flows["hides_type"][streams["flow"]]
    if not is_tls_1_3.all():
        which = np.repeat(is_tls_1_3, streams["records"]).tolist()
        rows = zip(headers, _as_bytes(associated), which, strict=True)
        headers = [header if hides_type else longer for header, longer, hides_type in rows]
    return [_as_bytes(nonces), *places.tolist(), headers]


def _as_bytes(rows: NDArray[np.uint8]) -> list[bytes]:
    found: list[bytes] = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}")[:, 0].tolist()
    return found


@compiled(None)
def _seal(  # noqa: PLR0917 - columns
    streams: Any,
    records: Any,
    flows: Any,
    ciphertext: Any,
    vectors: Any,
    places: Any,
    nonces: Any,
    associated: Any,
) -> None:
    """Fill `places`, of shape (4, records), `nonces` and `associated`, of which TLS 1.3 needs the header."""
    row = 0
    for number in range(len(streams)):
        stream = streams[number]
        flow = flows[stream.flow]
        for count in range(stream.records):
            record, own = records[row], stream.number + count
            begin = record.at + record.content - record.begin
            places[0, row], places[1, row] = begin, record.at + record.end - record.begin
            places[2, row], places[3, row] = record.plain, record.plain + record.size
            for at in range(IV_SIZE):
                nonces[row, at] = vectors[number, at]
            for at in range(_NUMBER_SIZE):
                byte = (own >> (8 * (_NUMBER_SIZE - 1 - at))) & 0xFF
                varying = ciphertext[begin - _NUMBER_SIZE + at] if flow.explicit_nonce else np.uint8(byte)
                nonces[row, IV_SIZE - _NUMBER_SIZE + at] ^= varying
                associated[row, at] = byte
            begins = 0 if flow.hides_type else _NUMBER_SIZE
            for at in range(HEADER_SIZE):
                associated[row, begins + at] = ciphertext[record.at + at]
            if not flow.hides_type:
                associated[row, _ASSOCIATED_SIZE - 2] = (record.size >> 8) & 0xFF
                associated[row, _ASSOCIATED_SIZE - 1] = record.size & 0xFF
            row += 1
