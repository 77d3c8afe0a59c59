"""Finds many connections among the stored ones in one pass over their IDs."""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from expectations.conversation.columnar.open_addressing import free_slots
from streaming.state.connection_layout import NOWHERE

_SEED: Final = np.uint64(secrets.randbits(64))
"""A secret, so that nobody makes IDs that collide."""


def places_of(wanted: bytes, stored: bytes, is_stored: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the place of each ID of 16 bytes among the stored ones, as far as `is_stored` is set.

    NOWHERE is the place of those that are not stored, and of those that are wanted more than once.
    """
    halves, among = (np.frombuffer(ids, np.int64).reshape(-1, 2) for ids in (wanted, stored))
    places = np.full(len(halves), NOWHERE, np.int64)
    slots = free_slots(len(halves))
    _find(halves, among, is_stored, _SEED, slots, np.zeros(len(halves), np.bool_), places)
    return places


@compiled(None)
def _find(  # noqa: PLR0917 - compiled functions are called by position
    wanted: Any, stored: Any, is_stored: Any, seed: Any, slots: Any, is_double: Any, places: Any
) -> None:
    mask = np.uint64(len(slots) - 1)
    for number in range(len(wanted) + len(stored)):
        is_wanted = number < len(wanted)
        at = number if is_wanted else number - len(wanted)
        if not is_wanted and not is_stored[at]:
            continue
        first, second = (wanted[at, 0], wanted[at, 1]) if is_wanted else (stored[at, 0], stored[at, 1])
        value = (np.uint64(first) ^ seed) * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(29)) ^ np.uint64(second)) * np.uint64(0xBF58476D1CE4E5B9)
        slot = (value ^ (value >> np.uint64(32))) & mask
        while slots[slot] >= 0:
            other = slots[slot]
            if wanted[other, 0] == first and wanted[other, 1] == second:
                break
            slot = (slot + np.uint64(1)) & mask
        other = slots[slot]
        if is_wanted and other < 0:
            slots[slot] = at
        elif is_wanted:
            is_double[other] = True
        elif other >= 0 and not is_double[other]:
            places[other] = at
