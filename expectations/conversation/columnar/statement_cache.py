"""The statements of batches. A form of frame that was met before is not decoded again.

Frames of a batch that are equal but for their correlation IDs are grouped first, and one of each group is
looked at. If columns hold it completely, its statement is a template and own values (`own_columns.py`), and
only a new template needs the scalar code. Other frames are decoded by the scalar code, unless an equal frame
came in an earlier batch. `compared` then says which statements folding may join.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Record
from decoders.keyed_hash import FingerprintKeys, HashKeys, fingerprints
from decoders.open_addressing import grouped
from decoders.schema.registry import Schemas
from decoders.wire.columnar.events import Events
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.bodies import (
    ClusterDescription,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    SoftwareClaim,
)
from expectations.conversation.columnar.folding import (
    HIDDEN_HEARTBEAT,
    NO_HEARTBEAT,
    NOT_DESCRIBED,
    NOT_FOLDABLE,
    is_foldable,
    may_hide_heartbeat,
)
from expectations.conversation.columnar.own_columns import TextNumbers, own_columns
from expectations.conversation.columnar.reading import TEXT, TRAITS, WORDS, ReadFrames
from expectations.conversation.columnar.statement_columns import (
    AT,
    FIELDS,
    Numbered,
    StatementColumns,
    StatementRows,
)
from expectations.conversation.columnar.window_columns import MISSING
from expectations.conversation.statement_reader import correlation_id, read_statement
from expectations.conversation.statement_template import OwnValues, StatementTemplate, split

CAPACITY: Final = 250_000
"""Statements that are kept; the cache is cleared when there are more."""
BYTE_CAPACITY: Final = 64 * 1024 * 1024
"""Bytes of frames and texts that are kept as keys, likewise."""
_CONTENT: Final = 2 * TEXT["first"]
_READ: Final = attrgetter(
    "kind",
    "direction",
    "pairing",
    "closing",
    "flags",
    "paired_api_key",
    "paired_api_version",
    "server",
    "true_length",
    "frame",
)
"""What `read_statement` reads of an event."""

_PLACES_OF_TEXTS: Final = WORDS + np.array([number for name, number in TEXT.items() if name != "instance_id"])
"""Where keys have numbers of texts."""
_TEXTS_OF_BODY: Final[Mapping[type, Sequence[str]]] = {
    Heartbeat: ("group_id", "member_id"),
    HeartbeatResponse: ("", "member_id"),
    MemberRequest: ("group_id", "member_id"),
    SoftwareClaim: ("name", "version", "cluster_id"),
}
"""The fields of bodies that hold the texts `first`, `second` and `third` of a frame."""
_MAY_BE_OWN: Final = int(OwnValues.MEMBER | OwnValues.GROUP | OwnValues.EPOCH)
_OWN_OF_BODY: Final = [AT[name] for name in ("group", "member_first", "member_second", "epoch")]

_Integers = NDArray[np.int64]


class Compared(NamedTuple):
    """An element per statement, as `Rows` has them per record.

    `numbers` (int64) are those of foldable statements in the batch, NOT_FOLDABLE for others. `fingerprints`
    (int64) are equal for equal statements, also of other batches. `described` and `heartbeats` (int64) number
    the descriptions of brokers, and the bodies of heartbeats and of their responses, of one batch.
    `expects_response` is bool.
    """

    numbers: _Integers
    fingerprints: _Integers
    described: _Integers
    heartbeats: _Integers
    expects_response: NDArray[np.bool_]


class BatchStatements(NamedTuple):
    """What the records of a batch say, frames before events: that of record i is `statements[places[i]]`.

    `correlation_ids` are those of the records, MISSING where there is none. `compared` has an element per
    statement.
    """

    statements: StatementColumns
    places: _Integers
    correlation_ids: _Integers
    compared: Compared


class StatementCache:
    """The statements of frames, by the columns or bytes from which they follow."""

    def __init__(self, schemas: Schemas, secret: bytes) -> None:
        """`secret` keeps strangers from choosing texts that are slow to look up."""
        self._schemas = schemas
        self._hash_keys, self._fingerprint_keys = HashKeys.of(secret), FingerprintKeys.of(secret)
        self._clear()

    def _clear(self) -> None:
        self._rows = StatementRows()
        self._texts = TextNumbers(self._rows.texts, self._hash_keys)
        self._templates = TemplateCache(self._schemas, self._rows, self._hash_keys)
        self._servers = Numbered[str]()
        self._decoded: dict[bytes, tuple[int, ...]] = {}
        self._bytes = 0

    def clear_if_full(self) -> bool:
        """Clear the cache if it holds too much; returns whether it did. It voids earlier fingerprints."""
        of_rows = self._rows.templates, self._rows.texts
        caches = *of_rows, self._texts, self._templates, self._servers, self._decoded
        is_full = max(len(cache) for cache in caches) > CAPACITY
        is_full |= self._bytes + self._texts.bytes > BYTE_CAPACITY
        if is_full:
            self._clear()
        return is_full

    def of_batch(self, batch: FrameBatch, read: ReadFrames) -> BatchStatements:
        """Return the statements of frames and events. `read` holds the frames, and is changed."""
        self._number_servers(batch, read)
        words = read.traits.view(np.int64).reshape(-1, WORDS)
        groups = grouped(self._hash_keys, words, batch.data, read.texts)
        complete = read.complete[groups.first]
        rows = np.empty((len(groups.first), len(FIELDS)), np.int64)
        rows[complete] = self._complete(batch, read, groups.first[complete])
        rows[~complete] = self._others(batch, read, groups.first[~complete])
        distinct, of_events = _distinct(batch.events)
        places = np.concatenate((groups.members, of_events + len(rows)))
        stated = [self._rows.row(read_statement(self._schemas, record)) for record in distinct]
        rows = np.concatenate((rows, _matrix(stated)))
        alike = grouped(self._hash_keys, rows)
        statements = self._rows.columns(rows).chosen(alike.first)
        found = fingerprints(self._fingerprint_keys, rows[alike.first])
        return BatchStatements(
            statements,
            alike.members[places],
            _correlation_ids(read.decoded.heads, distinct, of_events),
            compared(statements, found, self._hash_keys),
        )

    def _number_servers(self, batch: FrameBatch, read: ReadFrames) -> None:
        """Put the number of the server into the traits of frames that the scalar code reads.

        The description of a broker depends on the address of its server.
        """
        others = np.flatnonzero(~read.complete)
        used, inverse = np.unique(batch.frames.connections[others], return_inverse=True)
        servers = [batch.openings[connection].server for connection in used.tolist()]
        numbers = {server: self._servers.number(server) for server in dict.fromkeys(servers)}
        of_used = np.array([*map(numbers.__getitem__, servers)], np.int32)
        read.traits["server"][others] = of_used[inverse]

    def _complete(self, batch: FrameBatch, read: ReadFrames, frames: _Integers) -> _Integers:
        """Return the rows of the statements of frames that columns hold completely."""
        keys, values = own_columns(batch.data, read.traits[frames], read.texts[frames], self._texts)
        templates = self._templates.numbers(batch, frames, keys)
        return np.column_stack((templates, values))

    def _others(self, batch: FrameBatch, read: ReadFrames, frames: _Integers) -> _Integers:
        traits, size = read.traits[frames].tobytes(), TRAITS.itemsize
        keys = [
            traits[at * size : (at + 1) * size] + batch.data[begin : begin + length].tobytes()
            for at, (begin, length) in enumerate(read.texts[frames, _CONTENT : _CONTENT + 2].tolist())
        ]
        missing = {
            key: frame for key, frame in zip(keys, frames.tolist(), strict=True) if key not in self._decoded
        }
        records = batch.records_of(np.array(list(missing.values()), np.int64))
        for key, record in zip(missing, records, strict=True):
            self._decoded[key] = self._rows.row(read_statement(self._schemas, record))
            self._bytes += len(key)
        return _matrix([self._decoded[key] for key in keys])


class TemplateCache:
    """Templates of statements by the keys of `own_columns`. A new key takes the decoding of one frame.

    Strangers may invent texts, and so keys. Therefore the scalar code decodes only one of the frames whose
    keys differ in nothing but texts, and the texts of the others are put into its template.
    """

    def __init__(self, schemas: Schemas, rows: StatementRows, hash_keys: HashKeys) -> None:
        self._schemas, self._hash_keys = schemas, hash_keys
        self._rows = rows
        self._known: dict[bytes, int] = {}
        self._alike: dict[bytes, StatementTemplate] = {}

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, batch: FrameBatch, frames: _Integers, keys: _Integers) -> _Integers:
        """Return the template numbers of frames, each with a row of `keys`."""
        groups = grouped(self._hash_keys, keys)
        distinct, alike = keys[groups.first], keys[groups.first]
        alike[:, _PLACES_OF_TEXTS] = np.minimum(alike[:, _PLACES_OF_TEXTS], 0)
        first = zip(frames[groups.first].tolist(), distinct, alike, strict=True)
        numbers = [self._number(batch, *each) for each in first]
        of_frames: _Integers = np.array(numbers, np.int64)[groups.members]
        return of_frames

    def _number(self, batch: FrameBatch, frame: int, key: _Integers, alike: _Integers) -> int:
        packed = key.tobytes()
        number = self._known.get(packed)
        if number is None:
            template = self._with_texts(self._like(batch, frame, alike.tobytes()), key[WORDS:].tolist())
            number = self._known[packed] = self._rows.templates.number(template)
        return number

    def _like(self, batch: FrameBatch, frame: int, alike: bytes) -> StatementTemplate:
        """Return the template of the first frame that was alike, which may have other texts."""
        known = self._alike.get(alike)
        if known is None:
            known, _ = split(read_statement(self._schemas, batch.record(frame)))
            self._alike[alike] = known
        return known

    def _with_texts(self, like: StatementTemplate, kept: list[int]) -> StatementTemplate:
        """Put the texts of a key into a template. Own and missing values are alike already."""
        (client, _, *of_body), texts, statement = kept, self._rows.texts.values, like.statement
        body, client_id = statement.body, statement.client_id
        names = zip(_TEXTS_OF_BODY.get(type(body), ()), of_body, strict=False)
        given = {name: texts[number] for name, number in names if number >= 0}
        statement = msgspec.structs.replace(
            statement,
            client_id=client_id if client < 0 else texts[client],
            body=msgspec.structs.replace(body, **given) if body is not None and given else body,
        )
        return StatementTemplate(statement, like.own, like.form)


def _distinct(events: Events) -> tuple[list[Record], _Integers]:
    """Return events of which no two say the same, and for each event the number of the one that says so."""
    changes, numbered = events.changes, Numbered[Hashable]()
    ways = changes.closings.astype(np.int64) << 8 | changes.directions
    _, first, of_changes = np.unique(ways, return_index=True, return_inverse=True)
    of_others = np.array([numbered.number(_READ(event)) for event in events.others], np.int64)
    _, first_others = np.unique(of_others, return_index=True)
    distinct = [*map(events.change, first.tolist()), *map(events.others.__getitem__, first_others.tolist())]
    return distinct, np.concatenate((of_changes, len(first) + of_others))[events.order]


def _correlation_ids(heads: NDArray[np.void], distinct: Sequence[Record], of_events: _Integers) -> _Integers:
    of_frames = np.where(heads["has_correlation_id"], heads["correlation_id"].astype(np.int64), MISSING)
    of_distinct = [MISSING if each is None else each for each in map(correlation_id, distinct)]
    return np.concatenate((of_frames, np.array(of_distinct, np.int64)[of_events]))


def _matrix(rows: list[tuple[int, ...]]) -> _Integers:
    return np.array(rows, np.int64).reshape(-1, len(FIELDS))


def compared(statements: StatementColumns, found: _Integers, hash_keys: HashKeys) -> Compared:
    """Return what folding compares of statements, given their fingerprints."""
    bodies = Numbered[Hashable]()
    facts = [_facts(template, bodies) for template in statements.templates]
    of_templates = np.array(facts, np.int64).reshape(-1, 4)
    templates = statements.columns[AT["template"]]
    foldable, described, heartbeats, expects_response = of_templates[templates].T
    with_own = np.flatnonzero(heartbeats > NO_HEARTBEAT)
    words = np.vstack((heartbeats, statements.columns[_OWN_OF_BODY]))[:, with_own]
    groups = grouped(hash_keys, np.ascontiguousarray(words.T))
    heartbeats[with_own] = NO_HEARTBEAT + 1 + groups.members
    return Compared(
        np.where(foldable, np.arange(len(statements)), NOT_FOLDABLE),
        found,
        described,
        heartbeats,
        expects_response.astype(np.bool_),
    )


def _facts(template: StatementTemplate, bodies: Numbered[Hashable]) -> tuple[bool, int, int, bool]:
    """Return whether statements of a template are foldable, two numbers, and whether they expect a response.

    The numbers are those of `Compared`, without regard to own values.
    """
    statement, described, heartbeat = template.statement, NOT_DESCRIBED, NO_HEARTBEAT
    if isinstance(statement.body, ClusterDescription):
        described = NOT_DESCRIBED + 1 + bodies.number(statement.body)
    if may_hide_heartbeat(statement):
        heartbeat = HIDDEN_HEARTBEAT
    elif isinstance(statement.body, Heartbeat | HeartbeatResponse):
        own = int(template.own) & _MAY_BE_OWN
        heartbeat = NO_HEARTBEAT + 1 + bodies.number((statement.body, own, template.form))
    return is_foldable(statement), described, heartbeat, statement.expects_response
