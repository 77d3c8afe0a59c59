"""Templates of claims: what a transition claims, as msgpack with gaps for a connection's own values.

The gaps of many connections are filled column by column.
"""

from __future__ import annotations

import binascii
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.frame.record import host_of
from decoders.memory import bounds_of, gathered
from expectations.conversation.columnar.own_columns import KAFKAS_LENGTH
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import Evidence
from expectations.conversation.texts import UUID_BYTES, UuidForm, written
from expectations.identity.claim import Claim, digest_of
from expectations.identity.packed_claims import CLAIM_ROW, PackedClaims
from expectations.judging.cells import Linear, input_cell
from expectations.judging.traced_values import NotFollowedError, StandIns, TracedNumber

_ENCODER: Final = msgspec.msgpack.Encoder()
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_FILLED: Final = 18
"""The bytes of a UUID, filled up to groups of three."""
_Integers = NDArray[np.int64]
_NOWHERE: Final = -1
_KEYS: Final = 4
"""The first rows of snapshots: the window, or below 0 an occurrence; the halves of the identity's digest; the
sequence that first shows it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Occurrences at which one transition was taken, with the values of its gaps.

    `windows` and `occurrences` (int64) are numbers in `columns`; `gaps` (int64) has a row for each gap.
    `texts` is the pool of texts. A claim gives the evidence of its occurrence, none if that is _NOWHERE.
    """

    columns: WindowColumns
    windows: _Integers
    occurrences: _Integers
    gaps: _Integers
    texts: Sequence[object]
    _filled: dict[_Gap, Sequence[Any]] = field(default_factory=dict)

    def chosen(self, rows: _Integers, occurrences: _Integers) -> Claimed:
        """Return some of them, with the evidence of these occurrences. `rows` are in order, each once."""
        if len(rows) == len(self.windows) and (occurrences == self.occurrences).all():
            return self
        gaps = self.gaps[:, rows]
        return replace(self, windows=self.windows[rows], occurrences=occurrences, gaps=gaps, _filled={})

    def values(self, gap: _Gap) -> Sequence[Any]:
        """Return the values that fill a gap. Claims of one transition share them."""
        if gap not in self._filled:
            self._filled[gap] = gap.of(self)
        return self._filled[gap]


class _Gap(NamedTuple):
    """Where a claim has values of its own: `fill` returns that of each occurrence, by what is `given`."""

    fill: Callable[..., Sequence[Any]]
    given: tuple[Any, ...] = ()

    def of(self, claimed: Claimed) -> Sequence[Any]:
        """Return the value of each occurrence."""
        return self.fill(claimed, *self.given)


def _numbers(claimed: Claimed, gap: int) -> list[int]:
    numbers: list[int] = claimed.gaps[gap].tolist()
    return numbers


def _texts(claimed: Claimed, gap: int) -> list[str]:
    return [str(claimed.texts[number]) for number in claimed.gaps[gap].tolist()]


def _uuids(claimed: Claimed, gap: int, form: UuidForm | None) -> list[bytes] | list[str]:
    """Return the UUIDs in two gaps. Without a form they stay bytes."""
    joined = np.ascontiguousarray(claimed.gaps[gap : gap + 2].T).tobytes()
    if form is UuidForm.KAFKA:
        return _kafkas(joined)
    plain = [joined[at : at + UUID_BYTES] for at in range(0, len(joined), UUID_BYTES)]
    return plain if form is None else [written(each, form) for each in plain]


def _parts_of_keys(claimed: Claimed, name: str) -> list[Any]:
    """Return a part of the connections' keys."""
    columns = claimed.columns
    if name == "id":
        ids: list[bytes] = np.frombuffer(columns.ids, f"V{ID_BYTES}")[claimed.windows].tolist()
        return ids
    if name in ("client", "host"):
        clients = map(columns.clients.__getitem__, claimed.windows.tolist())
        return list(clients if name == "client" else map(host_of, clients))
    named = [server if name == "server" else cluster for cluster, server, _ in columns.servers]
    return list(map(named.__getitem__, columns.server_of[claimed.windows].tolist()))


def _evidence(claimed: Claimed) -> list[Evidence | None]:
    given: list[Evidence | None] = [None] * len(claimed.occurrences)
    places = np.flatnonzero(claimed.occurrences != _NOWHERE)
    found = claimed.columns.evidence(claimed.occurrences[places])
    for place, evidence in zip(places.tolist(), found, strict=True):
        given[place] = evidence
    return given


def _joined(claimed: Claimed, *parts: str | _Gap) -> list[str]:
    """Return texts that consist of several values and of constant parts between them."""
    count = len(claimed.windows)
    columns = ([part] * count if isinstance(part, str) else claimed.values(part) for part in parts)
    return list(map("".join, zip(*columns, strict=True)))


def _repeated(claimed: Claimed, value: Any) -> list[Any]:
    """Return a value that is no connection's own."""
    return [value] * len(claimed.windows)


_EVIDENCE: Final = _Gap(_evidence)


class ClaimTemplate:
    """One claim of a transition. `gives_evidence` is True for the first snapshot of a claim.

    `is_of_server` is True if it belongs to no connection.
    """

    def __init__(self, claim: Claim, writer: _Writer) -> None:
        """Raises NotFollowedError if the claim has a value that fills no gap."""
        self.kind = claim.identity.kind
        self.gives_evidence = claim.evidence is not None
        self.is_of_server = not claim.connection
        identity = claim.identity
        named = identity.cluster, identity.name, claim.until
        self._cluster, self._name, self._until = map(writer.value, named)
        ordered = claim.first_sequence, claim.as_of, claim.since
        self.first_sequence, self.as_of, self.since = map(writer.value, ordered)
        self._pieces = [*_united(writer.written(claim))]
        self._header_size = len(_header_of_array(len(self._pieces)))

    def digests(self, claimed: Claimed) -> _Integers:
        """Return the halves of the digests of the identities, one row (int64) for each."""
        named = zip(claimed.values(self._cluster), claimed.values(self._name), strict=True)
        digests = [digest_of(self.kind, cluster, name) for cluster, name in named]
        return np.frombuffer(b"".join(digests), np.int64).reshape(-1, 2)

    def packed(self, claimed: Claimed, digests: _Integers) -> PackedClaims:
        """Return the claims of all occurrences. `digests` are their halves, one row (int64) for each."""
        columns = (
            repeat(piece) if isinstance(piece, msgspec.Raw) else claimed.values(piece)
            for piece in self._pieces
        )
        # All pieces of a claim are encoded at once, as an array, whose header does not belong to the claim.
        encoded = [*map(_ENCODER.encode, zip(*columns, strict=False))]
        bounds = bounds_of([*map(len, encoded)])
        begins, sizes = bounds[:-1] + self._header_size, np.diff(bounds) - self._header_size
        packed, _ = gathered(np.frombuffer(b"".join(encoded), np.uint8), begins, sizes)
        rows = np.zeros(len(sizes), CLAIM_ROW)
        rows["digest"] = np.ascontiguousarray(digests).view(CLAIM_ROW["digest"])[:, 0]
        rows["until"], rows["size"], rows["kind"] = claimed.values(self._until), sizes, self.kind
        if not self.is_of_server:
            ids = np.frombuffer(claimed.columns.ids, CLAIM_ROW["connection"])
            rows["connection"] = ids[claimed.windows]
        return PackedClaims(rows.tobytes(), packed.tobytes())


def claim_templates(
    claims: Iterable[Claim], stand_ins: StandIns
) -> tuple[tuple[ClaimTemplate, ...], tuple[Linear, ...]]:
    """Return the templates of a transition's claims, and the values that fill the gaps of them all.

    Raises NotFollowedError if a claim has a value that fills no gap.
    """
    writer = _Writer(stand_ins)
    templates = tuple(ClaimTemplate(claim, writer) for claim in claims)
    return templates, tuple(writer.gaps)


class ClaimBatch:
    """Claims of many connections: of each the latest snapshot, with the evidence of the first.

    Claims of servers are all kept.
    """

    def __init__(self) -> None:
        self._made: list[tuple[ClaimTemplate, Claimed]] = []
        self._snapshots: list[_Integers] = []

    def add(self, template: ClaimTemplate, claimed: Claimed) -> None:
        """Add a claim of a transition, at all occurrences."""
        count, number = len(claimed.windows), len(self._made)
        # A server's claim that is made again says until when it held, so all of them are kept.
        shown = -1 - claimed.occurrences if template.is_of_server else claimed.windows
        ordered = template.first_sequence.of(claimed), template.as_of.of(claimed)
        place = np.full(count, number), np.arange(count), claimed.occurrences
        self._snapshots.append(np.array([shown, *template.digests(claimed).T, *ordered, *place]))
        self._made.append((template, claimed))

    def packed(self) -> PackedClaims:
        """Return the claims."""
        if not self._made:
            return PackedClaims()
        snapshots = np.concatenate(self._snapshots, axis=1)
        # The snapshots of a claim have equal keys, and follow each other up to the latest one.
        snapshots = snapshots[:, np.lexsort(snapshots[-2::-1])]
        keys, (numbers, rows, occurrences) = snapshots[:_KEYS], snapshots[-3:]
        is_latest = np.append((keys[:, 1:] != keys[:, :-1]).any(axis=0), True)
        claims = np.cumsum(is_latest) - is_latest
        gives_evidence = np.array([template.gives_evidence for template, _ in self._made])[numbers]
        evidence = np.full(claims[-1] + 1, _NOWHERE)
        evidence[claims[gives_evidence]] = occurrences[gives_evidence]
        packed = []
        for number, (template, claimed) in enumerate(self._made):
            latest = np.flatnonzero(is_latest & (numbers == number))
            latest = latest[np.argsort(rows[latest])]
            kept = claimed.chosen(rows[latest], evidence[claims[latest]])
            packed.append(template.packed(kept, keys[1:3, latest].T))
        return PackedClaims.joined(packed)


class _Writer:
    """Writes claims as msgpack, with gaps where stand-ins and traced numbers are."""

    def __init__(self, stand_ins: StandIns) -> None:
        self.gaps: list[Linear] = []
        self._known: dict[tuple[Linear, ...], int] = {}
        self._stand_ins = stand_ins
        self._named = self._names()
        self._scan = re.compile("|".join(sorted(map(re.escape, self._named), key=len, reverse=True)))

    def gap(self, *values: Linear) -> int:
        """Return the first of the gaps with these values."""
        if values not in self._known:
            self._known[values] = len(self.gaps)
            self.gaps += values
        return self._known[values]

    def written(self, claim: Claim) -> Iterator[bytes | _Gap]:
        """Yield the pieces of a claim; its evidence is a gap, whether it gives any or not."""
        if claim.evidence is not None and self._stand_ins.texts.get(claim.evidence) != input_cell("evidence"):
            raise NotFollowedError
        yield _header_of_array(len(Claim.__struct_fields__))
        for name in Claim.__struct_fields__:
            if name == "evidence":
                yield _EVIDENCE
            else:
                yield from self._pieces(getattr(claim, name))

    def value(self, value: Any) -> _Gap:
        """Return what a value is filled with."""
        return self._gap_for(value) or _Gap(_repeated, (value,))

    def _pieces(self, value: Any) -> Iterator[bytes | _Gap]:
        """Yield the pieces of a value of msgpack's types, or of a struct of such values."""
        gap = self._gap_for(value)
        if gap is not None:
            yield gap
        elif isinstance(value, msgspec.Struct):
            tag = type(value).__struct_config__.tag
            yield from self._pieces([*([tag] if tag else []), *msgspec.structs.astuple(value)])
        elif isinstance(value, list | tuple):
            yield _header_of_array(len(value))
            for each in value:
                yield from self._pieces(each)
        else:
            yield _ENCODER.encode(value)

    def _names(self) -> dict[str, Callable[[], _Gap]]:
        """Return what stand-ins in texts stand for."""
        key = self._stand_ins.key()
        parts = ("cluster", key.cluster), ("client", key.client), ("server", key.server)
        found: dict[str, Callable[[], _Gap]] = {
            text: functools.partial(_Gap, _parts_of_keys, (name,))
            for name, text in (*parts, ("host", host_of(key.client)))
        }
        for text, cell in self._stand_ins.texts.items():
            if isinstance(text, str):
                found[text] = functools.partial(self._text, cell)
        for identifier, cell in self._stand_ins.uuids.items():
            for form in reversed(UuidForm):
                found[written(identifier, form)] = functools.partial(self._uuid, cell, form)
        return found

    def _text(self, cell: int) -> _Gap:
        return _Gap(_texts, (self.gap(Linear(cell)),))

    def _uuid(self, cell: int, form: UuidForm | None) -> _Gap:
        return _Gap(_uuids, (self.gap(Linear(cell), Linear(cell + 1)), form))

    def _gap_for(self, value: Any) -> _Gap | None:
        if isinstance(value, TracedNumber):
            return _Gap(_numbers, (self.gap(value.linear),))
        if isinstance(value, bytes):
            if value == self._stand_ins.key().id:
                return _Gap(_parts_of_keys, ("id",))
            cell = self._stand_ins.uuids.get(value)
            return None if cell is None else self._uuid(cell, None)
        return self._gap_for_text(value) if isinstance(value, str) else None

    def _gap_for_text(self, value: str) -> _Gap | None:
        parts: list[str | _Gap] = []
        end = 0
        for found in self._scan.finditer(value):
            parts += value[end : found.start()], self._named[found.group()]()
            end = found.end()
        if not parts:
            return None
        parts = [part for part in (*parts, value[end:]) if part]
        return _Gap(_joined, tuple(parts)) if len(parts) > 1 or isinstance(parts[0], str) else parts[0]


def _united(pieces: Iterable[Any]) -> Iterator[msgspec.Raw | _Gap]:
    """Yield pieces as they are encoded; constants that follow each other become one."""
    for kind, following in groupby(pieces, type):
        if kind is bytes:
            yield msgspec.Raw(b"".join(following))
        else:
            yield from following


def _kafkas(joined: bytes) -> list[str]:
    """Write UUIDs in Kafka's form, all in one call."""
    plain = np.frombuffer(joined, np.uint8).reshape(-1, UUID_BYTES)
    filled = np.zeros((len(plain), _FILLED), np.uint8)
    filled[:, :UUID_BYTES] = plain
    encoded = binascii.b2a_base64(filled.tobytes(), newline=False).translate(_URL_SAFE).decode()
    width = _FILLED // 3 * 4
    return [encoded[at : at + KAFKAS_LENGTH] for at in range(0, len(encoded), width)]


def _header_of_array(size: int) -> bytes:
    encoded: bytes = _ENCODER.encode([None] * size)
    return encoded[: len(encoded) - size]
