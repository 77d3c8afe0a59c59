"""The head of a frame: what the reader reports of every frame, as a numpy type."""

from __future__ import annotations

from typing import Final

import numpy as np

# The numbers of reasons, oddities and layouts; `codec/columnar/frames.py` names them.
NO_FAILURE: Final = -1
TRUNCATED: Final = 0
NULL_NOT_ALLOWED: Final = 1
INVALID_LENGTH: Final = 2
INVALID_TAG: Final = 3
INVALID_VARINT: Final = 4
TRAILING_BYTES: Final = 0
TAG_SIZE_MISMATCH: Final = 1
TAG_ORDER: Final = 2
OVERLONG_VARINT: Final = 3
NEGATIVE_LENGTH: Final = 4
INVALID_UTF8: Final = 5

NO_LAYOUT: Final = -1
PLAIN_LAYOUT: Final = 0
TAGGED_LAYOUT: Final = 1

REQUEST_LEAD: Final = 8
RESPONSE_LEAD: Final = 4
"""Bytes of a header up to and including its correlation ID. They are read without a tape."""

FRAME_PATH: Final = 0
FIRST_LEAD_PATH: Final = 1
"""The numbers of the paths of the API key, the API version and the correlation ID of a request."""
HEAD: Final = np.dtype(
    [
        ("client_id_begin", np.int64),
        ("client_instance_id_begin", np.int64),
        ("correlation_id", np.int32),
        ("client_id_length", np.int32),
        ("failure_path", np.int32),
        ("failure_offset", np.int32),
        ("api_key", np.int16),
        ("api_version", np.int16),
        ("body_version", np.int16),
        ("header_version", np.int8),
        ("failure_reason", np.int8),
        ("layout", np.int8),
        ("has_correlation_id", np.bool_),
        ("has_unknown_header_tags", np.bool_),
        ("has_odd_header", np.bool_),
        ("has_body", np.bool_),
        ("known", np.bool_),
    ],
    align=True,
)
"""-1 stands for what a frame does not have; for the correlation ID, `has_correlation_id` says so.

Begins are indexes into the data of all frames, `failure_offset` counts from the beginning of the frame.
`failure_path` is the number of a path. `has_unknown_header_tags` and `has_odd_header` (a remark on the
header) are what proofs of the KIP-1313 overlay need."""
