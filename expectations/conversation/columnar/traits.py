"""Traits: the columns in which frames with equal statements agree, and the grouping of frames by them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.compilation import compiled, inlined
from expectations.conversation.columnar.open_addressing import free_slots, mixed

MOST_ERROR_CODES: Final = 8
"""Distinct error codes of a response that its traits hold."""

TRAITS: Final = np.dtype(
    {
        "names": [
            "error_codes",
            "client_id_length",
            "api_key",
            "api_version",
            "kind",
            "direction",
            "pairing",
            "flags",
            "header_version",
            "layout",
            "has_body",
            "is_cut",
            "has_instance_id",
            "expects_response",
            "error_code_count",
            "unused",
        ],
        "formats": [
            (np.int16, MOST_ERROR_CODES),
            *(np.int32, np.int16, np.int16),
            *["u1"] * 4,
            "i1",
            *["u1"] * 4,
            *("i1", "u1"),
            (np.uint8, 5),
        ],
    }
)
"""What frames with equal statements share, besides the bytes of client ID and instance ID.

`error_codes` are distinct and ascending; a count above MOST_ERROR_CODES means that some are missing.
`unused` fills eight-byte words: numpy copies no bytes that belong to no field, and all bytes are compared.
"""
_WORDS: Final = TRAITS.itemsize // 8
_INSTANCE_ID: Final = 16


class Groups(NamedTuple):
    """Groups of equal frames.

    `members` (int64) is the group of each frame, -1 if it has none. `first` (int64) is the first frame of
    each group.
    """

    members: NDArray[np.int64]
    first: NDArray[np.int64]


def group(
    decoded: DecodedFrames, traits: NDArray[np.void], texts: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Groups:
    """Group the chosen frames by their traits, client IDs, instance IDs and `texts` of their bodies.

    `texts` has a row per frame, or none: begin and length of one text after the other, -1 for a missing one.
    """
    words = traits.view(np.uint64).reshape(len(traits), _WORDS)
    ids = (decoded.heads["client_id_begin"], decoded.heads["client_id_length"])
    instance_ids = decoded.heads["client_instance_id_begin"]
    members, first = np.full(len(traits), -1, np.int64), np.empty(len(traits), np.int64)
    slots = free_slots(len(traits))
    count = _group(words, decoded.frames.data, *ids, instance_ids, texts, chosen, slots, members, first)
    return Groups(members, first[:count].copy())


@compiled(None)
def gather_error_codes(found: Any, columns: int, traits: Any) -> None:
    """Insert the distinct values of the first `columns` columns into the traits of their frames, sorted."""
    for row in range(len(found)):
        if found[row, 1] >= columns:
            continue
        trait, code = traits[found[row, 0]], np.int16(found[row, 2])
        count = trait.error_code_count
        at = np.int64(0)
        while at < min(count, MOST_ERROR_CODES) and trait.error_codes[at] < code:
            at += 1
        if at < min(count, MOST_ERROR_CODES) and trait.error_codes[at] == code:
            continue
        if count >= MOST_ERROR_CODES:
            trait.error_code_count = MOST_ERROR_CODES + 1
            continue
        for later in range(count, at, -1):
            trait.error_codes[later] = trait.error_codes[later - 1]
        trait.error_codes[at] = code
        trait.error_code_count = count + 1


@inlined
def _same_bytes(data: Any, left: Any, right: Any, length: Any) -> Any:
    at = np.int64(0)
    while at < length and data[left + at] == data[right + at]:
        at += 1
    return at >= length


@inlined
def _mixed_texts(value: Any, data: Any, texts: Any, number: Any, columns: Any) -> Any:
    for column in range(0, columns, 2):
        for at in range(texts[number, column + 1]):
            value = mixed(value, np.uint64(data[texts[number, column] + at]))
    return value


@inlined
def _same_texts(data: Any, texts: Any, number: Any, other: Any, columns: Any) -> Any:
    same = True
    for column in range(0, columns, 2):
        length = texts[number, column + 1]
        same = same and length == texts[other, column + 1]
        same = same and _same_bytes(data, texts[number, column], texts[other, column], length)
    return same


@compiled(None)
def _group(  # noqa: PLR0917 - compiled functions are called by position
    words: Any,
    data: Any,
    id_begins: Any,
    id_lengths: Any,
    instance_ids: Any,
    texts: Any,
    chosen: Any,
    slots: Any,
    members: Any,
    first: Any,
) -> int:
    """Number the groups by their first frames. Returns the number of groups."""
    mask, count = np.uint64(len(slots) - 1), 0
    columns = texts.shape[1] if len(texts) else 0
    for number in range(len(words)):
        if not chosen[number]:
            continue
        value = np.uint64(0)
        for word in range(_WORDS):
            value = mixed(value, words[number, word])
        for at in range(id_lengths[number]):
            value = mixed(value, np.uint64(data[id_begins[number] + at]))
        if instance_ids[number] >= 0:
            for at in range(_INSTANCE_ID):
                value = mixed(value, np.uint64(data[instance_ids[number] + at]))
        value = _mixed_texts(value, data, texts, number, columns)
        slot = value & mask
        while slots[slot] >= 0:
            other = first[slots[slot]]
            same = True
            for word in range(_WORDS):
                same = same and words[number, word] == words[other, word]
            same = same and _same_texts(data, texts, number, other, columns)
            if same and _same_bytes(data, id_begins[number], id_begins[other], id_lengths[number]):
                if instance_ids[number] < 0:
                    break
                if _same_bytes(data, instance_ids[number], instance_ids[other], _INSTANCE_ID):
                    break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = count
            first[count] = number
            count += 1
        members[number] = slots[slot]
    return count
