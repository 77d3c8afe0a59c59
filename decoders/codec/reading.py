"""One attempt to read a frame as a header and a body, and its result."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from decoders.codec.failure import DecodeFailure, Oddity, Reason, Remark
from decoders.codec.program import Program
from decoders.codec.reader import Reader, Spans


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a frame.

    `header` holds the header fields that were read, all of them if `has_header`. `body` is None unless it was
    read whole. `failure` says why reading ended early; the end of a cut frame is not a failure. `is_exact`
    says that header and body end at the last byte of the frame.
    """

    header: dict[str, Any]
    has_header: bool
    body: dict[str, Any] | None
    remarks: tuple[Remark, ...]
    spans: Spans
    failure: DecodeFailure | None
    is_exact: bool


def read_frame(
    frame: bytes, header: Program, body: Program | None, cut: bool, spans: Collection[str]
) -> Reading:
    """Read a frame without its length prefix; if `body` is None, only the header.

    `cut` says that the frame's tail is missing. Raises nothing, whatever the bytes.
    """
    reader = Reader(frame, spans=spans)
    fields: dict[str, Any] = {}
    content: dict[str, Any] | None = None
    has_header, failure = False, None
    try:
        reader.fill(header, fields)
        has_header = True
        content = reader.fill(body, {}) if body else None
    except DecodeFailure as found:
        failure = None if cut and found.reason is Reason.TRUNCATED else found
    is_exact = content is not None and reader.is_exhausted
    if content is not None and not is_exact and not cut:
        reader.remark(Oddity.TRAILING_BYTES, "", reader.position)
    return Reading(fields, has_header, content, reader.remarks, reader.spans, failure, is_exact)
