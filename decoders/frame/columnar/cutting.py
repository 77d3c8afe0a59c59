"""Removes record payloads and secrets from batches of frames, as `frame/cutting.py` does from one.

Frames of APIs with record payloads go through the columnar reader, which finds where these begin. Other
frames that may not be kept as they are go through the scalar code: there are few.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.frame.cutting import GUARDED_REQUESTS, GUARDED_RESPONSES, MAX_KEPT, Guard, cut
from decoders.frame.record import Kind, Pairing
from decoders.schema.model import Message
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch

_KEPT: Final = 0
"""The API has nothing to remove."""
_CUT: Final = 1
"""Its frames end where their payload begins, and have nothing to blank."""
_GUARDED: Final = 2
"""Any other API, or an unknown one: the scalar code decides."""
_KEYS: Final = 1 << 16
_PAYLOAD: Final = "payload"


class ColumnarCutter:
    """Cuts batches. Not for several threads at once."""

    def __init__(self, schemas: Schemas) -> None:
        requests = [api.request for api in schemas.apis]
        responses = [api.response for api in schemas.apis]
        self._schemas = schemas
        self._treatments = (
            _treatments(responses, GUARDED_RESPONSES),
            _treatments(requests, GUARDED_REQUESTS),
        )
        payloads = [*_payloads(requests, GUARDED_REQUESTS), *_payloads(responses, GUARDED_RESPONSES)]
        self._reader = ColumnarReader(schemas, {_PAYLOAD: payloads} if payloads else None)

    def cut(self, batch: FrameBatch) -> FrameBatch:
        """Return the batch with only those bytes of its frames that may be kept. Blanks in its own data."""
        frames = batch.frames
        lengths = frames.lengths.copy()
        treatments = self._treatment(batch)
        numbers = np.flatnonzero(treatments == _CUT)
        kept, is_certain = self._up_to_payload(batch, numbers)
        lengths[numbers] = kept
        for number in (*numbers[~is_certain].tolist(), *np.flatnonzero(treatments == _GUARDED).tolist()):
            lengths[number] = self._cut_one(batch, number)
        np.minimum(lengths, MAX_KEPT, out=lengths)
        events = [cut(self._schemas, event) for event in batch.events]
        return dataclasses.replace(batch, frames=frames._replace(lengths=lengths), events=events)

    def _treatment(self, batch: FrameBatch) -> NDArray[np.uint8]:
        frames, (of_responses, of_requests) = batch.frames, self._treatments
        is_request = frames.kinds == Kind.REQUEST
        has_key = frames.lengths >= 2
        places = np.where(has_key, frames.starts, 0)
        bytes_ = batch.data if len(batch.data) > 1 else np.zeros(2, np.uint8)
        keys = bytes_[places].astype(np.int64) << 8 | bytes_[places + 1]
        responses = of_responses[frames.paired_api_keys.astype(np.uint16)]
        responses[frames.pairings != Pairing.MATCHED] = _GUARDED
        return np.where(is_request, np.where(has_key, of_requests[keys], np.uint8(_GUARDED)), responses)

    def _up_to_payload(
        self, batch: FrameBatch, numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return how many bytes of frames precede their payload, and whether they were read for certain."""
        frames = batch.frames
        begins, lengths = frames.starts[numbers], frames.lengths[numbers]
        read = self._reader.read(
            Frames(
                batch.data,
                begins,
                lengths.astype(np.int32),
                np.zeros(len(numbers), np.bool_),
                frames.kinds[numbers] == Kind.REQUEST,
                frames.paired_api_keys[numbers],
                frames.paired_api_versions[numbers],
            )
        )
        # In reverse, so that the first payload of a frame is written last.
        payloads = read.found[read.found[:, 3] > 0][::-1]
        lengths[payloads[:, 0]] = payloads[:, 2] - begins[payloads[:, 0]]
        is_certain = read.heads["known"] & (read.heads["failure_reason"] < 0)
        is_certain[read.remarks[:, 0]] = False
        return lengths, is_certain

    def _cut_one(self, batch: FrameBatch, number: int) -> int:
        kept = cut(self._schemas, batch.record(number)).frame
        start = int(batch.frames.starts[number])
        batch.data[start : start + len(kept)] = np.frombuffer(kept, np.uint8)
        return len(kept)


def _treatments(messages: Iterable[Message], guards: Mapping[str, Guard]) -> NDArray[np.uint8]:
    """Return what is done with the frames of each API, indexed by API key as an unsigned number."""
    treatments = np.full(_KEYS, _GUARDED, np.uint8)
    for message in messages:
        guard = guards.get(_api_name(message), Guard())
        assert message.api_key is not None  # every request and response has one
        treatments[message.api_key] = _GUARDED if guard.blanked else _CUT if guard.cut else _KEPT
    return treatments


def _payloads(messages: Iterable[Message], guards: Mapping[str, Guard]) -> list[str]:
    guarded = [(message.name, guards.get(_api_name(message), Guard())) for message in messages]
    return [f"{name}.{path}" for name, guard in guarded if not guard.blanked for path in guard.cut]


def _api_name(message: Message) -> str:
    return message.name.removesuffix("Request").removesuffix("Response")
