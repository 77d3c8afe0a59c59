"""Observations of frames that were seen before: what the scalar code said of one holds for its likes."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.decoded import DecodedFrames
from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.columnar.folding import HIDDEN_BEAT, NO_BEAT, NO_LIKENESS, NOT_DESCRIBED
from expectations.conversation.columnar.likeness import TRAITS
from expectations.conversation.columnar.reading import ReadFrames
from expectations.conversation.fold import Likeness, likeness_of, may_hide_heartbeat
from expectations.conversation.observation import (
    Body,
    ClusterDescription,
    Evidence,
    Heartbeat,
    HeartbeatAnswer,
    Observation,
)
from expectations.conversation.observe import observe

MOST_REMEMBERED: Final = 250_000
"""Observations that are kept; when there are more, all are forgotten."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of frames that are kept to know them again, likewise."""
_NOWHERE: Final = Evidence(source="", bytes="")
_REQUEST_LEAD: Final = 8
_RESPONSE_LEAD: Final = 4
"""Where the correlation ID ends. What stands before that of a request is in the traits too."""

_Integers = NDArray[np.int64]


class Known(msgspec.Struct, frozen=True, gc=False):
    """What is known of like frames.

    `observation` is that of one of them. `likeness`, `described` and `beat` are numbers for what folding
    compares.
    """

    observation: Observation
    likeness: int
    described: int
    beat: int


class _Content(msgspec.Struct, frozen=True, gc=False):
    """What frames share that are known again by their bytes.

    `content` lacks what ends with the correlation ID. What a broker says of itself depends on the
    address of the `server` that was asked.
    """

    traits: bytes
    length: int
    content: bytes
    server: str


class Recollection:
    """Remembers observations by what makes frames alike."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._known: dict[Hashable, Known] = {}
        self._likenesses: dict[Likeness, int] = {}
        self._descriptions: dict[ClusterDescription, int] = {}
        self._beats: dict[Heartbeat | HeartbeatAnswer, int] = {}
        self._bytes = 0

    def tidy(self) -> bool:
        """Forget everything if it has become too much. Tells so: numbers given before mean nothing then."""
        most = max(len(self._known), len(self._likenesses))
        is_full = most > MOST_REMEMBERED or self._bytes > MOST_BYTES
        if is_full:
            self._known.clear()
            self._likenesses.clear()
            self._descriptions.clear()
            self._beats.clear()
            self._bytes = 0
        return is_full

    def of_groups(self, batch: FrameBatch, read: ReadFrames, first: _Integers) -> list[Known]:
        """Give what is known of groups of plain frames; `first` are frames, one of each group."""
        return self._of_traits(batch, read, first, itertools.repeat(None, len(first)))

    def _of_traits(
        self, batch: FrameBatch, read: ReadFrames, numbers: _Integers, bodies: Iterable[Body | None]
    ) -> list[Known]:
        """Give what is known of frames by their traits.

        Their client IDs, instance IDs and bodies are put in: there may be as many as there are clients.
        """
        told = read.traits[numbers]
        told["client_id_length"] = np.minimum(told["client_id_length"], 0)
        content, size = told.tobytes(), TRAITS.itemsize
        keys = [content[at : at + size] for at in range(0, len(content), size)]
        own = zip(keys, numbers.tolist(), *_identities(read.decoded, numbers), bodies, strict=True)
        return [
            self._of_like(self._like(key, batch, number), client_id, instance_id, body)
            for key, number, client_id, instance_id, body in own
        ]

    def _like(self, key: bytes, batch: FrameBatch, number: int) -> Observation:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.of_record(batch.record(number))
        return known.observation

    def _of_like(
        self, like: Observation, client_id: str | None, instance_id: bytes | None, body: Body | None
    ) -> Known:
        # A zero ID of the tagged layout is not written: it stands in the observation alone.
        instance_id = like.client_instance_id if instance_id is None else instance_id
        return self._known_as(
            msgspec.structs.replace(like, client_id=client_id, client_instance_id=instance_id, body=body)
        )

    def of_frames(self, batch: FrameBatch, read: ReadFrames, numbers: _Integers) -> list[Known]:
        """Give what is known of frames by their traits and by all their bytes but the correlation ID."""
        keys = list(_contents(batch, read.traits, numbers))
        news = {
            key: number for key, number in zip(keys, numbers.tolist(), strict=True) if key not in self._known
        }
        learnt = self._learn(batch, read, np.array(list(news.values()), np.int64))
        for key, known in zip(news, learnt, strict=True):
            self._known[key] = known
            self._bytes += key.length
        return [self._known[key] for key in keys]

    def _learn(self, batch: FrameBatch, read: ReadFrames, numbers: _Integers) -> Iterator[Known]:
        """Observe frames that are not known: heartbeats by columns, the others one by one."""
        by_columns = read.heartbeats[numbers]
        beats = numbers[by_columns]
        of_beats = iter(self._of_traits(batch, read, beats, read.bodies(beats)))
        of_others = map(self.of_record, batch.records_of(numbers[~by_columns]))
        for is_beat in by_columns.tolist():
            yield next(of_beats if is_beat else of_others)

    def of_record(self, record: Record) -> Known:
        """Observe a record, and remember nothing of it but its likeness."""
        return self._known_as(observe(self._schemas, record, _NOWHERE))

    def _known_as(self, observation: Observation) -> Known:
        likeness, body = likeness_of(observation), observation.body
        number, described, beat = NO_LIKENESS, NOT_DESCRIBED, NO_BEAT
        if likeness is not None:
            number = self._likenesses.setdefault(likeness, len(self._likenesses))
        if isinstance(body, ClusterDescription):
            described = self._descriptions.setdefault(body, NOT_DESCRIBED + 1 + len(self._descriptions))
        if may_hide_heartbeat(observation):
            beat = HIDDEN_BEAT
        elif isinstance(body, Heartbeat | HeartbeatAnswer):
            beat = self._beats.setdefault(body, NO_BEAT + 1 + len(self._beats))
        return Known(observation, number, described, beat)


def _contents(batch: FrameBatch, traits: NDArray[np.void], numbers: _Integers) -> Iterator[_Content]:
    frames, data = batch.frames, batch.data.data
    starts, lengths = frames.starts[numbers], frames.lengths[numbers]
    leads = np.where(frames.kinds[numbers] == Kind.REQUEST, _REQUEST_LEAD, _RESPONSE_LEAD)
    begins = starts + np.where(lengths >= leads, leads, 0)
    told, size = traits[numbers].tobytes(), TRAITS.itemsize
    columns = (begins, starts + lengths, lengths, frames.connections[numbers])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for at, (begin, end, length, connection) in enumerate(rows):
        server = batch.openings[connection].server
        yield _Content(told[at * size : (at + 1) * size], length, bytes(data[begin:end]), server)


def _identities(decoded: DecodedFrames, numbers: _Integers) -> tuple[list[str | None], list[bytes | None]]:
    """Give the client IDs, which are known to be UTF-8, and the instance IDs of frames."""
    data, heads = decoded.frames.data.data, decoded.heads
    begins, lengths = heads["client_id_begin"][numbers].tolist(), heads["client_id_length"][numbers].tolist()
    client_ids = [
        None if length < 0 else str(data[begin : begin + length], "utf-8")
        for begin, length in zip(begins, lengths, strict=True)
    ]
    places = heads["client_instance_id_begin"][numbers].tolist()
    return client_ids, [None if begin < 0 else bytes(data[begin : begin + 16]) for begin in places]
