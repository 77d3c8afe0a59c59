"""Compiled: requests, as `codec/request.py` reads them, with the layouts of header 3 that a frame proves."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.head import (
    FIRST_LEAD_PATH,
    NO_FAILURE,
    REQUEST_LEAD,
    TAGGED_LAYOUT,
    TRUNCATED,
)
from decoders.codec.columnar.machine import FOUND, REMARKS, FrameSpan, Machine, clear_failure, discard, fail
from decoders.codec.columnar.memory import int16, int32
from decoders.codec.columnar.tape_format import NOWHERE, REQUESTS, RIVALS, TAGGED_REQUESTS, entry_of
from decoders.codec.columnar.walk import read_frame
from decoders.compilation import inlined, outlined
from decoders.protocol import API_VERSIONS


@inlined
def read_request(
    machine: Machine, rival_machine: Machine, frame: FrameSpan, entries: Any, headers: Any
) -> None:
    """Read a request; `rival_machine` has a head for readings that are only compared."""
    if frame.end - frame.begin < REQUEST_LEAD:
        _read_short_request(machine, frame, entries)
        return
    head = machine.head
    head.api_key = int16(machine.data, frame.begin)
    head.api_version = int16(machine.data, frame.begin + 2)
    head.correlation_id = int32(machine.data, frame.begin + 4)
    head.has_correlation_id = True
    entry = entry_of(entries, REQUESTS, head.api_key, head.api_version)
    if entry == NOWHERE:
        head.known = False
        if head.api_key == API_VERSIONS and headers[0] != NOWHERE:
            _read_header(machine, frame, headers)
        return
    if entry_of(entries, RIVALS, head.api_key, head.api_version) != NOWHERE:
        _read_overlay_request(machine, rival_machine, frame, entries)
    else:
        read_frame(machine, frame, REQUEST_LEAD, entry)


@outlined
def _read_short_request(machine: Machine, frame: FrameSpan, entries: Any) -> None:
    """Read a request that ends before its correlation ID does."""
    head, size = machine.head, frame.end - frame.begin
    head.api_key = int16(machine.data, frame.begin) if size >= 2 else -1
    head.api_version = int16(machine.data, frame.begin + 2) if size >= 4 else -1
    if size >= 4:
        entry = entry_of(entries, REQUESTS, head.api_key, head.api_version)
        rival = entry_of(entries, RIVALS, head.api_key, head.api_version)
        head.known = entry != NOWHERE and rival == NOWHERE
    if head.known and not frame.is_cut:
        missing = min(size // 2, 2)
        fail(machine, frame, TRUNCATED, FIRST_LEAD_PATH + missing, frame.begin + 2 * missing)


@outlined
def _read_header(machine: Machine, frame: FrameSpan, headers: Any) -> None:
    """Read the header of an ApiVersions request whose version the schemas do not have."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    read_frame(machine, frame, REQUEST_LEAD, headers[0] if head.api_version < 0 else headers[1])
    if head.header_version < 0:
        discard(machine, found, remarks)
    machine.counts[REMARKS] = remarks
    head.has_body = False
    clear_failure(head)


@outlined
def _read_overlay_request(machine: Machine, rival_machine: Machine, frame: FrameSpan, entries: Any) -> None:
    """Read a request of a version that only the overlay has, in the one layout that the frame proves."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    tagged = entry_of(entries, TAGGED_REQUESTS, head.api_key, head.api_version)
    is_tagged = _is_proven(machine, frame, read_frame(machine, frame, REQUEST_LEAD, tagged))
    discard(machine, found, remarks)
    plain = entry_of(entries, REQUESTS, head.api_key, head.api_version)
    is_plain = _is_proven(machine, frame, read_frame(machine, frame, REQUEST_LEAD, plain))
    if is_plain and not frame.is_cut:
        kept, odd = machine.counts[FOUND], machine.counts[REMARKS]
        rival = entry_of(entries, RIVALS, head.api_key, head.api_version)
        is_ambiguous = read_frame(rival_machine, frame, REQUEST_LEAD, rival)
        machine.counts[FOUND] = kept
        machine.counts[REMARKS] = odd
    else:
        is_ambiguous = False
    if is_plain and not is_tagged and not is_ambiguous:
        return
    discard(machine, found, remarks)
    if is_tagged and not is_plain:
        read_frame(machine, frame, REQUEST_LEAD, tagged)
    else:
        head.known = False


@inlined
def _is_proven(machine: Machine, frame: FrameSpan, is_exact: bool) -> bool:
    """Return whether a reading proves its layout, as `codec/header_layout.py` says, but for its rival."""
    head = machine.head
    instance_id = head.client_instance_id_begin
    if head.layout == TAGGED_LAYOUT and (
        instance_id < 0 or head.has_unknown_header_tags or head.has_odd_header
    ):
        return False
    if not frame.is_cut:
        return is_exact
    if head.failure_reason != NO_FAILURE or head.header_version < 0 or instance_id < 0:
        return False
    is_lead_zero = machine.data[np.uint64(instance_id)] == 0
    return head.layout == TAGGED_LAYOUT or not (head.has_unknown_header_tags or is_lead_zero)
