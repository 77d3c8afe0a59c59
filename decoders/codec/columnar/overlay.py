"""Requests of versions that only the overlay knows: which layout of header 3 is proven, if any is."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoders.codec.columnar.entries import REQUESTS, RIVALS, TAGGED_REQUESTS, entry_of
from decoders.codec.columnar.head import NO_FAILURE, REQUEST_LEAD, TAGGED_LAYOUT
from decoders.codec.columnar.machine import FOUND, REMARKS, Frame, Machine, forget
from decoders.codec.columnar.walk import read_frame
from decoders.compilation import inlined, outlined


@inlined
def _is_proven(machine: Machine, frame: Frame, is_exact: bool) -> bool:
    """Whether a layout of header 3 is proven, as `codec/header_layout.py` says; its rival left aside."""
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


@outlined
def read_overlay(machine: Machine, rival_machine: Machine, frame: Frame, entries: Any) -> None:
    """Read a request of a version that only the overlay knows, in the one layout that is proven."""
    head, found, remarks = machine.head, machine.counts[FOUND], machine.counts[REMARKS]
    tagged = entry_of(entries, TAGGED_REQUESTS, head.api_key, head.api_version)
    is_tagged = _is_proven(machine, frame, read_frame(machine, frame, REQUEST_LEAD, tagged))
    forget(machine, found, remarks)
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
    forget(machine, found, remarks)
    if is_tagged and not is_plain:
        read_frame(machine, frame, REQUEST_LEAD, tagged)
    else:
        head.known = False
