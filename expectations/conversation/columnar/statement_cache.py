"""A cache of statements: frames that differ only in correlation ID are decoded by the scalar code once.

The key of a plain frame is its traits (`traits.py`), that of any other frame its traits and all its bytes but
the correlation ID. The cache may be cleared at any time. Keeping it from one batch to the next spares a sixth
of the time of this stage.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.frame.record import Kind, Record
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.bodies import Body, ClusterDescription, Heartbeat, HeartbeatResponse
from expectations.conversation.bounded_text import bounded
from expectations.conversation.columnar.folding import (
    HIDDEN_HEARTBEAT,
    NO_HEARTBEAT,
    NOT_DESCRIBED,
    NOT_FOLDABLE,
)
from expectations.conversation.columnar.member_requests import member_requests
from expectations.conversation.columnar.reading import ReadFrames
from expectations.conversation.columnar.traits import TRAITS
from expectations.conversation.fold import is_foldable, may_hide_heartbeat
from expectations.conversation.observe import observe
from expectations.conversation.occurrence import NO_EVIDENCE
from expectations.conversation.statement import Statement

CAPACITY: Final = 250_000
"""Statements that are kept; the cache is cleared when there are more."""
BYTE_CAPACITY: Final = 64 * 1024 * 1024
"""Bytes of frames that are kept as keys, likewise."""
_REQUEST_LEAD: Final = 8
_RESPONSE_LEAD: Final = 4
"""The offset behind the correlation ID. What precedes it in a request is part of the traits."""

_Integers = NDArray[np.int64]


class Known(msgspec.Struct, frozen=True, gc=False):
    """A statement, and what folding compares of it, as numbers.

    `number` is equal for equal statements, NOT_FOLDABLE for those that are never folded. `described` numbers
    a broker's description of itself, `heartbeat` the body of a heartbeat or of its response.
    """

    statement: Statement
    number: int
    described: int
    heartbeat: int


class _FrameKey(msgspec.Struct, frozen=True, gc=False):
    """The key of a frame that is known by its bytes.

    `content` lacks what ends with the correlation ID. What a broker says of itself depends on the address of
    the `server`.
    """

    traits: bytes
    length: int
    content: bytes
    server: str


class StatementCache:
    """Statements by what identifies their frames."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._known: dict[Hashable, Known] = {}
        self._numbers: dict[Statement, int] = {}
        self._descriptions: dict[ClusterDescription, int] = {}
        self._heartbeats: dict[Heartbeat | HeartbeatResponse, int] = {}
        self._bytes = 0

    def clear_if_full(self) -> bool:
        """Clear the cache if it holds too much. Returns whether it did: earlier numbers are then void."""
        is_full = max(len(self._known), len(self._numbers)) > CAPACITY or self._bytes > BYTE_CAPACITY
        if is_full:
            for cache in (self._known, self._numbers, self._descriptions, self._heartbeats):
                cache.clear()
            self._bytes = 0
        return is_full

    def of_groups(self, batch: FrameBatch, read: ReadFrames, first: _Integers) -> list[Known]:
        """Return the statements of groups of plain frames; `first` numbers one frame of each group."""
        return self._of_traits(batch, read, first, member_requests(read.decoded, read.member_places, first))

    def of_frames(self, batch: FrameBatch, read: ReadFrames, numbers: _Integers) -> list[Known]:
        """Return the statements of frames that are known by their bytes."""
        keys = list(_frame_keys(batch, read.traits, numbers))
        missing = {
            key: number for key, number in zip(keys, numbers.tolist(), strict=True) if key not in self._known
        }
        decoded = self._decode(batch, read, np.array(list(missing.values()), np.int64))
        for key, known in zip(missing, decoded, strict=True):
            self._known[key] = known
            self._bytes += key.length
        return [self._known[key] for key in keys]

    def of_statement(self, statement: Statement) -> Known:
        """Return a statement with what folding compares of it."""
        body = statement.body
        number, described, heartbeat = NOT_FOLDABLE, NOT_DESCRIBED, NO_HEARTBEAT
        if is_foldable(statement):
            number = self._numbers.setdefault(statement, len(self._numbers))
        if isinstance(body, ClusterDescription):
            described = self._descriptions.setdefault(body, NOT_DESCRIBED + 1 + len(self._descriptions))
        if may_hide_heartbeat(statement):
            heartbeat = HIDDEN_HEARTBEAT
        elif isinstance(body, Heartbeat | HeartbeatResponse):
            heartbeat = self._heartbeats.setdefault(body, NO_HEARTBEAT + 1 + len(self._heartbeats))
        return Known(statement, number, described, heartbeat)

    def _of_record(self, record: Record) -> Known:
        return self.of_statement(observe(self._schemas, record, NO_EVIDENCE).statement)

    def _of_traits(
        self, batch: FrameBatch, read: ReadFrames, numbers: _Integers, bodies: Iterable[Body | None]
    ) -> list[Known]:
        """Return the statements of frames that are known by their traits.

        Client IDs, instance IDs and bodies are put in afterwards: each client may have its own.
        """
        traits = read.traits[numbers]
        traits["client_id_length"] = np.minimum(traits["client_id_length"], 0)
        content, size = traits.tobytes(), TRAITS.itemsize
        keys = [content[at : at + size] for at in range(0, len(content), size)]
        own = zip(keys, numbers.tolist(), *_identities(read.decoded, numbers), bodies, strict=True)
        return [
            self._with_own(self._like(key, batch, number), client_id, instance_id, body)
            for key, number, client_id, instance_id, body in own
        ]

    def _like(self, key: bytes, batch: FrameBatch, number: int) -> Statement:
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._of_record(batch.record(number))
        return known.statement

    def _with_own(
        self, like: Statement, client_id: str | None, instance_id: bytes | None, body: Body | None
    ) -> Known:
        # The tagged layout omits an ID of zeros: then only the decoded statement has it.
        instance_id = like.client_instance_id if instance_id is None else instance_id
        return self.of_statement(
            msgspec.structs.replace(like, client_id=client_id, client_instance_id=instance_id, body=body)
        )

    def _decode(self, batch: FrameBatch, read: ReadFrames, numbers: _Integers) -> Iterator[Known]:
        """Decode frames that are not known: those of which columns tell all, and the others one by one."""
        by_columns = read.with_body[numbers]
        told = numbers[by_columns]
        of_columns = iter(self._of_traits(batch, read, told, read.bodies(told)))
        of_others = map(self._of_record, batch.records_of(numbers[~by_columns]))
        for is_told in by_columns.tolist():
            yield next(of_columns if is_told else of_others)


def _frame_keys(batch: FrameBatch, traits: NDArray[np.void], numbers: _Integers) -> Iterator[_FrameKey]:
    frames, data = batch.frames, batch.data.data
    starts, lengths = frames.starts[numbers], frames.lengths[numbers]
    leads = np.where(frames.kinds[numbers] == Kind.REQUEST, _REQUEST_LEAD, _RESPONSE_LEAD)
    begins = starts + np.where(lengths >= leads, leads, 0)
    content, size = traits[numbers].tobytes(), TRAITS.itemsize
    columns = (begins, starts + lengths, lengths, frames.connections[numbers])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for at, (begin, end, length, connection) in enumerate(rows):
        server = batch.openings[connection].server
        yield _FrameKey(content[at * size : (at + 1) * size], length, bytes(data[begin:end]), server)


def _identities(decoded: DecodedFrames, numbers: _Integers) -> tuple[list[str | None], list[bytes | None]]:
    """Return the client IDs, which are valid UTF-8, and the instance IDs of frames."""
    data, heads = decoded.frames.data.data, decoded.heads
    begins, lengths = heads["client_id_begin"][numbers].tolist(), heads["client_id_length"][numbers].tolist()
    client_ids = [
        None if length < 0 else bounded(str(data[begin : begin + length], "utf-8"))
        for begin, length in zip(begins, lengths, strict=True)
    ]
    places = heads["client_instance_id_begin"][numbers].tolist()
    return client_ids, [None if begin < 0 else bytes(data[begin : begin + 16]) for begin in places]
