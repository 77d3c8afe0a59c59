"""Compiled: responses, as `codec/response.py` reads them."""

from __future__ import annotations

from typing import Any

from decoders.codec.columnar.head import FIRST_LEAD_PATH, NO_FAILURE, RESPONSE_LEAD, TRUNCATED
from decoders.codec.columnar.machine import FOUND, REMARKS, FrameSpan, Machine, discard, fail
from decoders.codec.columnar.memory import int16, int32
from decoders.codec.columnar.tape_format import NOWHERE, RESPONSES, RIVALS, entry_of
from decoders.codec.columnar.walk import read_frame
from decoders.compilation import inlined, outlined
from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION


@inlined
def read_response(machine: Machine, frame: FrameSpan, entries: Any) -> None:
    """Read a response whose API key and version are already in the head."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    if frame.end - frame.begin < RESPONSE_LEAD:
        if not frame.is_cut:
            fail(machine, frame, TRUNCATED, FIRST_LEAD_PATH + 2, frame.begin)
        return
    head.correlation_id = int32(machine.data, frame.begin)
    head.has_correlation_id = True
    is_known = entry_of(entries, RESPONSES, head.api_key, head.api_version) != NOWHERE
    is_overlay = entry_of(entries, RIVALS, head.api_key, head.api_version) != NOWHERE
    if _is_refusal(machine, frame):
        _read_refusal(machine, frame, entries, is_known, is_known and not is_overlay)
    elif not is_known:
        head.known = False
    else:
        is_exact = _read_version(machine, frame, entries, head.api_version)
        is_whole = is_exact or (frame.is_cut and head.failure_reason == NO_FAILURE)
        if is_overlay and not is_whole:
            head.known = False
            discard(machine, found, remarks)


@inlined
def _read_version(machine: Machine, frame: FrameSpan, entries: Any, version: int) -> bool:
    """Read a response in the layout of a version; return whether to the last byte."""
    head = machine.head
    is_exact = read_frame(machine, frame, RESPONSE_LEAD, entry_of(entries, RESPONSES, head.api_key, version))
    head.body_version = version
    return is_exact


@inlined
def _is_refusal(machine: Machine, frame: FrameSpan) -> bool:
    return (
        machine.head.api_key == API_VERSIONS
        and frame.end - frame.begin >= 6
        and int16(machine.data, frame.begin + 4) == UNSUPPORTED_VERSION
    )


@outlined
def _read_refusal(
    machine: Machine, frame: FrameSpan, entries: Any, is_known: bool, is_released: bool
) -> None:
    """Read an ApiVersions response with error 35, most often in the layout of version 0."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    if _read_version(machine, frame, entries, 0) or (frame.is_cut and head.failure_reason == NO_FAILURE):
        return
    discard(machine, found, remarks)
    if is_known and _read_version(machine, frame, entries, head.api_version):
        return
    discard(machine, found, remarks)
    if is_released:
        _read_version(machine, frame, entries, 0)
    else:
        head.known = False
