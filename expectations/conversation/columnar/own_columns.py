"""Divides the columns of frames into own values and the rest, as `statement_template.split` does statements.

Own values become numbers: a text its place in a list, a UUID its halves (`halves_of`). All else becomes the
key of a template. Most member IDs are UUIDs in Kafka's form, so they are parsed as columns, without an object
for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.compilation import compiled
from decoders.frame.record import Kind
from decoders.keyed_hash import HashKeys
from decoders.open_addressing import grouped
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS
from expectations.conversation.columnar.reading import TEXT, WORDS
from expectations.conversation.columnar.statement_columns import NO_TEXT, Numbered, halves_of
from expectations.conversation.statement_template import is_own_text
from expectations.conversation.texts import RESERVED_UUIDS, UUID_BYTES, bounded, own_uuid

_CLIENT, _INSTANCE, _FIRST, _SECOND, _THIRD = TEXT.values()
_OWN: Final = -2
"""Stands for an own value in a key. A member ID in another form than Kafka's is `_OWN - form`."""
_OWN_EPOCH: Final = 1
KAFKAS_LENGTH: Final = 22
"""Characters of a UUID in Kafka's form."""
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_NO_DIGIT: Final = 64
_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(len(_ALPHABET))
_UNUSED_BITS: Final = 15
"""Of the last character: a UUID has 128 bits, its characters 132."""
_RESERVED: Final = [halves_of(each) for each in RESERVED_UUIDS]

_Integers = NDArray[np.int64]


class OwnColumns(NamedTuple):
    """Keys and own values, a row per frame of each.

    Frames with equal `keys` (int64) have statements of one template. `values` (int64) are the own values, in
    the order of `statement_columns.FIELDS`, without the template.
    """

    keys: _Integers
    values: _Integers


class TextNumbers:
    """Numbers the texts of frames, all valid UTF-8, as statements keep them.

    `bytes` adds up the lengths of distinct texts.
    """

    def __init__(self, texts: Numbered[str], hash_keys: HashKeys) -> None:
        self.texts, self._hash_keys = texts, hash_keys
        self.bytes = 0
        self._known: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, data: NDArray[np.uint8], places: _Integers) -> tuple[_Integers, NDArray[np.bool_]]:
        """Number the texts at places, rows of begin and length; NO_TEXT stands for a missing one.

        Also returns which of them would be own values as client or group IDs.
        """
        numbers, is_own = np.full(len(places), NO_TEXT, np.int64), np.zeros(len(places), np.bool_)
        present = np.flatnonzero(places[:, 1] >= 0)
        groups = grouped(self._hash_keys, np.empty((len(present), 0), np.int64), data, places[present])
        distinct = [
            self._number(data[begin : begin + length].tobytes())
            for begin, length in places[present[groups.first]].tolist()
        ]
        own = [is_own_text(self.texts.values[number]) for number in distinct]
        numbers[present] = np.array(distinct, np.int64)[groups.members]
        is_own[present] = np.array(own, np.bool_)[groups.members]
        return numbers, is_own

    def _number(self, content: bytes) -> int:
        number = self._known.get(content)
        if number is None:
            number = self._known[content] = self.texts.number(bounded(content.decode()))
            self.bytes += len(content)
        return number


def own_columns(
    data: NDArray[np.uint8], traits: NDArray[np.void], texts: _Integers, text_numbers: TextNumbers
) -> OwnColumns:
    """Divide what columns hold of frames; `traits` and `texts` are as in `ReadFrames`."""
    places, names_software = texts.reshape(len(texts), len(TEXT), 2).copy(), traits["api_key"] == API_VERSIONS
    instance_ids, kept_instance_ids = _instance_ids(data, places[:, _INSTANCE])
    members, is_member = _kafkas_members(data, places[:, _SECOND], ~names_software)
    places[:, _INSTANCE] = places[is_member, _SECOND] = -1
    numbers, is_own = (found.reshape(-1, len(TEXT)) for found in text_numbers.of(data, places.reshape(-1, 2)))
    is_own[:, [_SECOND, _THIRD]] = is_own[names_software, _FIRST] = False
    kept = np.where(is_own, _OWN, numbers)
    kept[:, _INSTANCE] = kept_instance_ids
    kept[is_member, _SECOND] = _OWN
    odd = np.flatnonzero((kept[:, _SECOND] >= 0) & ~names_software)
    kept[odd, _SECOND], members[odd] = _odd_members(numbers[odd, _SECOND], text_numbers.texts.values)
    has_epoch = (traits["kind"] == Kind.REQUEST) & np.isin(traits["api_key"], list(HEARTBEAT_APIS))
    epochs = np.where(has_epoch & (traits["number"] > 0), traits["number"].astype(np.int64), 0)
    kept_traits = traits.copy()
    kept_traits["number"][epochs > 0] = _OWN_EPOCH
    named = np.where(is_own, numbers, NO_TEXT)[:, [_CLIENT, _FIRST]]
    return OwnColumns(
        np.concatenate((kept_traits.view(np.int64).reshape(-1, WORDS), kept), axis=1),
        np.concatenate((named, instance_ids, members, epochs[:, np.newaxis]), axis=1),
    )


def _instance_ids(data: NDArray[np.uint8], places: _Integers) -> tuple[_Integers, _Integers]:
    """Return the halves of own instance IDs, and the part of each in its key: a reserved one's number."""
    halves = np.zeros((len(places), 2), np.int64)
    is_there = places[:, 1] >= 0
    halves[is_there] = halves_at(data, places[is_there, 0])
    is_own = is_there & ~is_reserved(halves)
    kept = np.where(is_own, _OWN, np.where(is_there, halves[:, 1], NO_TEXT))
    halves[~is_own] = 0
    return halves, kept


def _kafkas_members(
    data: NDArray[np.uint8], places: _Integers, chosen: NDArray[np.bool_]
) -> tuple[_Integers, NDArray[np.bool_]]:
    """Return the halves of own member IDs in Kafka's form, and which of the chosen frames have one."""
    halves, is_member = np.zeros((len(places), 2), np.int64), np.zeros(len(places), np.bool_)
    candidates = np.flatnonzero(chosen & (places[:, 1] == KAFKAS_LENGTH))
    found, is_uuid = kafkas_halves_at(data, places[candidates, 0])
    is_uuid &= ~is_reserved(found)
    halves[candidates[is_uuid]], is_member[candidates[is_uuid]] = found[is_uuid], True
    return halves, is_member


def _odd_members(numbers: _Integers, texts: Sequence[str]) -> tuple[_Integers, _Integers]:
    """Return the part in the key, and the halves, of member IDs in other forms, given as numbers of texts."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    found = [(number, own_uuid(texts[number])) for number in distinct.tolist()]
    kept = [number if own is None else _OWN - own[1] for number, own in found]
    halves = [halves_of(b"" if own is None else own[0]) for _, own in found]
    return np.array(kept, np.int64)[inverse], np.array(halves, np.int64).reshape(-1, 2)[inverse]


def halves_at(data: NDArray[np.uint8], begins: _Integers) -> _Integers:
    """Return the halves of the UUIDs whose bytes begin at these places."""
    return _halves(data[begins[:, np.newaxis] + np.arange(UUID_BYTES)])


def kafkas_halves_at(data: NDArray[np.uint8], begins: _Integers) -> tuple[_Integers, NDArray[np.bool_]]:
    """Return the halves of UUIDs that are written in Kafka's form, and which texts are such UUIDs.

    Each text has KAFKAS_LENGTH bytes.
    """
    content, is_uuid = np.empty((len(begins), UUID_BYTES), np.uint8), np.empty(len(begins), np.bool_)
    _read_uuids(data, begins, _DIGITS, content, is_uuid)
    return _halves(content), is_uuid


@compiled(None)
def _read_uuids(data: Any, begins: Any, digits: Any, content: Any, is_uuid: Any) -> None:
    """Read UUIDs from base64: each character has six bits, each byte of `content` takes eight."""
    for row in range(len(begins)):
        bits, count, at, is_valid = np.int64(0), 0, 0, True
        for place in range(begins[row], begins[row] + KAFKAS_LENGTH):
            digit = digits[data[place]]
            is_valid &= digit < _NO_DIGIT
            bits, count = bits << 6 | digit, count + 6
            if count >= 8:
                count -= 8
                content[row, at] = bits >> count & 0xFF
                bits, at = bits & 0xFF, at + 1
        is_uuid[row] = is_valid and bits & _UNUSED_BITS == 0


def is_reserved(halves: _Integers) -> NDArray[np.bool_]:
    """Return which UUIDs Kafka reserves."""
    found = np.zeros(len(halves), np.bool_)
    for first, second in _RESERVED:
        found |= (halves[:, 0] == first) & (halves[:, 1] == second)
    return found


def _halves(content: NDArray[np.uint8]) -> _Integers:
    halves: _Integers = content.view("<i8").astype(np.int64, copy=False)
    return halves
