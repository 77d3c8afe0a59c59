"""Templates of claims: what a transition claims, as msgpack with gaps for a connection's own values.

The gaps of many connections are filled column by column.
"""

from __future__ import annotations

import binascii
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.frame.record import host_of
from expectations.conversation.columnar.own_columns import KAFKAS_LENGTH
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.observation import Evidence
from expectations.conversation.texts import UUID_BYTES, UuidForm, written
from expectations.identity.claim import Claim, PackedClaim, digest_of
from expectations.judging.cells import Linear, input_cell
from expectations.judging.traced_values import NotFollowedError, StandIns, TracedNumber

_ENCODER: Final = msgspec.msgpack.Encoder()
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_FILLED: Final = 18
"""The bytes of a UUID, filled up to groups of three."""
_Integers = NDArray[np.int64]
_Key = tuple[int, bytes, int]
"""A window, or below 0 an occurrence; the digest of an identity; the sequence that first shows it."""


class Claimed(NamedTuple):
    """Occurrences at which one transition was taken, with the values of its gaps.

    `windows` and `occurrences` (int64) are numbers in `columns`; `gaps` (int64) has a row for each gap.
    `texts` is the pool of texts.
    """

    columns: WindowColumns
    windows: _Integers
    occurrences: _Integers
    gaps: _Integers
    texts: Sequence[object]

    def chosen(self, rows: _Integers) -> Claimed:
        """Return some of them."""
        return self._replace(
            windows=self.windows[rows], occurrences=self.occurrences[rows], gaps=self.gaps[:, rows]
        )


class _Number(NamedTuple):
    gap: int

    def of(self, claimed: Claimed) -> list[int]:
        numbers: list[int] = claimed.gaps[self.gap].tolist()
        return numbers


class _Text(NamedTuple):
    gap: int

    def of(self, claimed: Claimed) -> list[str]:
        return [str(claimed.texts[number]) for number in claimed.gaps[self.gap].tolist()]


class _Uuid(NamedTuple):
    """A UUID in two gaps. Without a form it stays bytes."""

    gap: int
    form: UuidForm | None

    def of(self, claimed: Claimed) -> list[bytes] | list[str]:
        joined = np.ascontiguousarray(claimed.gaps[self.gap : self.gap + 2].T).tobytes()
        if self.form is UuidForm.KAFKA:
            return _kafkas(joined)
        plain = [joined[at : at + UUID_BYTES] for at in range(0, len(joined), UUID_BYTES)]
        return plain if self.form is None else [written(each, self.form) for each in plain]


class _OfKey(NamedTuple):
    """Part of a connection's key."""

    name: str

    def of(self, claimed: Claimed) -> list[Any]:
        columns = claimed.columns
        if self.name == "id":
            ids: list[bytes] = np.frombuffer(columns.ids, f"V{ID_BYTES}")[claimed.windows].tolist()
            return ids
        if self.name in ("client", "host"):
            clients = [columns.clients[window] for window in claimed.windows.tolist()]
            return clients if self.name == "client" else [host_of(each) for each in clients]
        servers = [columns.servers[at] for at in columns.server_of[claimed.windows].tolist()]
        return [server if self.name == "server" else cluster for cluster, server, _ in servers]


class _EvidenceValue(NamedTuple):
    def of(self, claimed: Claimed) -> list[Evidence]:
        return claimed.columns.evidence(claimed.occurrences)


class _Joined(NamedTuple):
    """A text that consists of several values and of constant parts between them."""

    parts: tuple[str | _Text | _Uuid | _OfKey, ...]

    def of(self, claimed: Claimed) -> list[str]:
        count = len(claimed.windows)
        columns = ([part] * count if isinstance(part, str) else part.of(claimed) for part in self.parts)
        return list(map("".join, zip(*columns, strict=True)))


class _Constant(NamedTuple):
    """A value that is no connection's own."""

    value: Any

    def of(self, claimed: Claimed) -> list[Any]:
        return [self.value] * len(claimed.windows)


_Gap = _Number | _Text | _Uuid | _OfKey | _EvidenceValue | _Joined
_EVIDENCE: Final = _EvidenceValue()


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
        named = identity.cluster, identity.name, claim.connection, claim.until
        self._cluster, self._name, self._connection, self._until = map(writer.value, named)
        ordered = claim.first_sequence, claim.as_of, claim.since
        self.first_sequence, self.as_of, self.since = map(writer.value, ordered)
        self._pieces = _united(writer.written(claim))
        self._header_size = len(_header_of_array(len(self._pieces)))

    def digests(self, claimed: Claimed) -> list[bytes]:
        """Return the digests of the identities."""
        named = zip(self._cluster.of(claimed), self._name.of(claimed), strict=True)
        return [digest_of(self.kind, cluster, name) for cluster, name in named]

    def packed(
        self, claimed: Claimed, digests: Sequence[bytes], evidence: Sequence[Evidence | None]
    ) -> list[PackedClaim]:
        """Return the claims of all occurrences. `evidence` is that of each."""
        filled: dict[_Gap, Sequence[Any]] = {_EVIDENCE: evidence}
        for piece in self._pieces:
            if not isinstance(piece, msgspec.Raw) and piece not in filled:
                filled[piece] = piece.of(claimed)
        columns = (repeat(each) if isinstance(each, msgspec.Raw) else filled[each] for each in self._pieces)
        # All pieces of a claim are encoded at once, as an array, whose header does not belong to the claim.
        rows = (msgspec.Raw(_ENCODER.encode(row)[self._header_size :]) for row in zip(*columns, strict=False))
        kinds, connections, until = repeat(self.kind), self._connection.of(claimed), self._until.of(claimed)
        return [*map(PackedClaim, digests, kinds, connections, until, rows)]


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
        self._made: list[tuple[ClaimTemplate, Claimed, list[bytes]]] = []
        self._latest: dict[_Key, tuple[int, int, int]] = {}
        self._evidence: dict[_Key, Evidence] = {}

    def add(self, template: ClaimTemplate, claimed: Claimed) -> None:
        """Add a claim of a transition, at all occurrences."""
        digests, number = template.digests(claimed), len(self._made)
        self._made.append((template, claimed, digests))
        # What a server shows again says until when it did: each of its claims stands.
        shown = (-1 - claimed.occurrences if template.is_of_server else claimed.windows).tolist()
        keys = [*zip(shown, digests, template.first_sequence.of(claimed), strict=True)]
        if template.gives_evidence:
            self._evidence.update(zip(keys, _EVIDENCE.of(claimed), strict=True))
        for row, (key, as_of) in enumerate(zip(keys, template.as_of.of(claimed), strict=True)):
            snapshot = as_of, number, row
            if key not in self._latest or self._latest[key] < snapshot:
                self._latest[key] = snapshot

    def packed(self) -> list[PackedClaim]:
        """Return the claims."""
        packed: list[PackedClaim] = []
        chosen: dict[int, list[tuple[int, Evidence | None]]] = {}
        for key, (_, number, row) in self._latest.items():
            chosen.setdefault(number, []).append((row, self._evidence.get(key)))
        for number, rows in chosen.items():
            made, claimed, digests = self._made[number]
            places, evidence = zip(*rows, strict=True)
            kept = claimed.chosen(np.array(places, np.int64))
            packed += made.packed(kept, [digests[place] for place in places], evidence)
        return packed


class _Writer:
    """Writes claims as msgpack in `pieces`, with gaps where stand-ins and traced numbers are."""

    def __init__(self, stand_ins: StandIns) -> None:
        self.gaps: list[Linear] = []
        self.pieces: list[bytes | _Gap] = []
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

    def written(self, claim: Claim) -> list[bytes | _Gap]:
        """Write a claim; its evidence is a gap, whether it gives any or not."""
        if claim.evidence is not None and self._stand_ins.texts.get(claim.evidence) != input_cell("evidence"):
            raise NotFollowedError
        self.pieces = [_header_of_array(len(Claim.__struct_fields__))]
        for name in Claim.__struct_fields__:
            if name == "evidence":
                self.pieces.append(_EVIDENCE)
            else:
                self._write(getattr(claim, name))
        return self.pieces

    def value(self, value: Any) -> _Gap | _Constant:
        """Return what a value is filled with."""
        return self._gap_for(value) or _Constant(value)

    def _write(self, value: Any) -> None:
        """Write a value of msgpack's types, or a struct of such values."""
        gap = self._gap_for(value)
        if gap is not None:
            self.pieces.append(gap)
        elif isinstance(value, msgspec.Struct):
            tag = type(value).__struct_config__.tag
            self._write([*([tag] if tag else []), *msgspec.structs.astuple(value)])
        elif isinstance(value, list | tuple):
            self.pieces.append(_header_of_array(len(value)))
            for each in value:
                self._write(each)
        else:
            self.pieces.append(_ENCODER.encode(value))

    def _names(self) -> dict[str, Callable[[], _Text | _Uuid | _OfKey]]:
        """Return what stand-ins in texts stand for."""
        key = self._stand_ins.key()
        parts = ("cluster", key.cluster), ("client", key.client), ("server", key.server)
        found: dict[str, Callable[[], _Text | _Uuid | _OfKey]] = {
            text: functools.partial(_OfKey, name) for name, text in (*parts, ("host", host_of(key.client)))
        }
        for text, cell in self._stand_ins.texts.items():
            if isinstance(text, str):
                found[text] = functools.partial(self._text, cell)
        for identifier, cell in self._stand_ins.uuids.items():
            for form in reversed(UuidForm):
                found[written(identifier, form)] = functools.partial(self._uuid, cell, form)
        return found

    def _text(self, cell: int) -> _Text:
        return _Text(self.gap(Linear(cell)))

    def _uuid(self, cell: int, form: UuidForm | None) -> _Uuid:
        return _Uuid(self.gap(Linear(cell), Linear(cell + 1)), form)

    def _gap_for(self, value: Any) -> _Gap | None:
        if isinstance(value, TracedNumber):
            return _Number(self.gap(value.linear))
        if isinstance(value, bytes):
            if value == self._stand_ins.key().id:
                return _OfKey("id")
            cell = self._stand_ins.uuids.get(value)
            return None if cell is None else self._uuid(cell, None)
        return self._gap_for_text(value) if isinstance(value, str) else None

    def _gap_for_text(self, value: str) -> _Gap | None:
        parts: list[str | _Text | _Uuid | _OfKey] = []
        end = 0
        for found in self._scan.finditer(value):
            parts += value[end : found.start()], self._named[found.group()]()
            end = found.end()
        if not parts:
            return None
        parts = [part for part in (*parts, value[end:]) if part]
        return _Joined(tuple(parts)) if len(parts) > 1 or isinstance(parts[0], str) else parts[0]


def _united(pieces: Iterable[bytes | _Gap]) -> list[msgspec.Raw | _Gap]:
    """Return pieces as they are encoded; constants that follow each other become one."""
    united: list[bytes | _Gap] = []
    for piece in pieces:
        if isinstance(piece, bytes) and united and isinstance(united[-1], bytes):
            united[-1] += piece
        else:
            united.append(piece)
    return [msgspec.Raw(each) if isinstance(each, bytes) else each for each in united]


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
