"""Requests, as `codec/request.py` reads them."""

from __future__ import annotations

from typing import Any

from decoders.codec.columnar.entries import NOWHERE, REQUESTS, RIVALS, entry_of
from decoders.codec.columnar.head import API_VERSIONS, FIRST_LEAD_PATH, REQUEST_LEAD, TRUNCATED
from decoders.codec.columnar.machine import FOUND, REMARKS, Frame, Machine, fail, forget, pardon
from decoders.codec.columnar.numbers import int16, int32
from decoders.codec.columnar.overlay import read_overlay
from decoders.codec.columnar.walk import read_frame
from decoders.compilation import inlined, outlined


@outlined
def _read_short_request(machine: Machine, frame: Frame, entries: Any) -> None:
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
def _read_header(machine: Machine, frame: Frame, headers: Any) -> None:
    """Read the header of an ApiVersions request whose version nobody knows."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    read_frame(machine, frame, REQUEST_LEAD, headers[0] if head.api_version < 0 else headers[1])
    if head.header_version < 0:
        forget(machine, found, remarks)
    machine.counts[REMARKS] = remarks
    head.has_body = False
    pardon(head)


@inlined
def read_request(machine: Machine, rival_machine: Machine, frame: Frame, entries: Any, headers: Any) -> None:
    """Read a request as `codec/request.py` does."""
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
        read_overlay(machine, rival_machine, frame, entries)
    else:
        read_frame(machine, frame, REQUEST_LEAD, entry)
