"""A part of a step: the windows of one Arrow batch that concern a bucket, and what is known of each.

A part has one window of each of its connections. Frames are counted in groups, those that were walked and
those that were judged alike. A group is what one speaker said, with one template, in one minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.columnar.statement_columns import AT as STATED_AT
from expectations.conversation.columnar.window_columns import AT, WindowColumns
from expectations.conversation.observation import Statement, Window

MINUTE: Final = 60_000_000_000
"""Nanoseconds."""
_Integers = NDArray[np.int64]


class Part:
    """The windows of `columns`. `latest` (int64) is the latest sequence judged before on each connection.

    `software` and `clients` are the client's software and client ID after each window, None if it has not
    said them.
    """

    def __init__(self, columns: WindowColumns) -> None:
        count = len(columns)
        self.columns = columns
        self.latest = np.zeros(count, np.int64)
        self.software: list[SoftwareClaim | None] = [None] * count
        self.clients: list[str | None] = [None] * count

    @cached_property
    def windows(self) -> _Integers:
        """The window of each occurrence."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.columns.bounds))

    @cached_property
    def templates(self) -> _Integers:
        """The template of each occurrence, a number in the templates of the part's statements."""
        templates: _Integers = self.columns.statements.columns[STATED_AT["template"]][self.columns.numbers]
        return templates

    @cached_property
    def statements(self) -> list[Statement]:
        """What each template says."""
        return [template.statement for template in self.columns.statements.templates]

    @cached_property
    def is_new(self) -> NDArray[np.bool_]:
        """Whether an occurrence was not judged before: a source may be read again."""
        is_new: NDArray[np.bool_] = self.values("last_sequence") > self.latest[self.windows]
        return is_new

    def values(self, name: str) -> _Integers:
        """Return a value of each occurrence."""
        values: _Integers = self.columns.values[AT[name]]
        return values

    def said(self, *, by_client: bool) -> Iterator[Said]:
        """Yield the groups of what was said. Without `by_client` client IDs are not told apart."""
        numbers: dict[tuple[SoftwareClaim | None, str | None], int] = {}
        clients = self.clients if by_client else [None] * len(self.columns)
        named = zip(self.software, clients, strict=True)
        of_window = [numbers.setdefault(each, len(numbers)) for each in named]
        keys = (
            self.is_new.astype(np.int64),
            self.columns.server_of[self.windows],
            np.array(of_window, np.int64)[self.windows],
            self.values("last_captured_at") // MINUTE,
            self.templates,
        )
        speakers, counts = list(numbers), self.values("count")
        for (is_new, server, speaker, minute, template), places in groups(*keys):
            # Where texts are invented, most groups are of one occurrence, and summing is dear.
            frames = int(counts[places].sum() if len(places) > 1 else counts[places[0]])
            said_by, at = speakers[speaker], self.columns.servers[server][:2]
            yield Said(self, places, self.statements[template], *at, *said_by, minute, frames, bool(is_new))


class Said(NamedTuple):
    """What one speaker said, with one template, in one minute: occurrences at `places` of a part.

    `cluster` and `address` are those of its server, `minute` counts from the Unix epoch, `frames` is the
    number of frames. `is_new` is False for what was judged before.
    """

    part: Part
    places: _Integers
    statement: Statement
    cluster: str
    address: str
    software: SoftwareClaim | None
    client_id: str | None
    minute: int
    frames: int
    is_new: bool

    def values(self, name: str) -> _Integers:
        """Return a value of each occurrence."""
        return self.part.values(name)[self.places]

    @property
    def windows(self) -> _Integers:
        """The window of each occurrence."""
        return self.part.windows[self.places]


def groups(*keys: _Integers) -> Iterator[tuple[list[int], _Integers]]:
    """Yield each combination of keys, and the places that have it, in order."""
    order = np.lexsort(keys[::-1])
    ordered = np.array(keys)[:, order]
    is_first = np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))[: len(order)]
    begins = np.flatnonzero(is_first)
    edges = pairwise([*begins.tolist(), len(order)])
    for combination, (begin, end) in zip(ordered[:, begins].T.tolist(), edges, strict=True):
        yield combination, order[begin:end]


def in_order(parts: Sequence[WindowColumns]) -> Sequence[WindowColumns]:
    """Return parts in which the windows of a connection are in order: Spark returns rows in any order."""
    if len(parts) < 2:
        return parts
    parts = sorted(parts, key=_least_sequence)
    ids = np.concatenate([np.frombuffer(part.ids, np.int64).reshape(-1, 2) for part in parts])
    firsts = np.concatenate([_first_sequences(part) for part in parts])
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    is_same = (np.diff(ids[order], axis=0) == 0).all(axis=1)
    if not (is_same & (np.diff(firsts[order]) < 0)).any():
        return parts
    windows = [window for part in parts for window in part.windows()]
    again: list[list[Window]] = []
    count: dict[bytes, int] = {}
    for window in sorted(windows, key=lambda window: window.first_sequence):
        nth = count[window.connection.id] = count.get(window.connection.id, -1) + 1
        if nth == len(again):
            again.append([])
        again[nth].append(window)
    return [WindowColumns.of(part) for part in again]


def _first_sequences(part: WindowColumns) -> _Integers:
    """Return the first sequence of each window, 0 for one without occurrences."""
    begins, has_any = part.bounds[:-1], np.diff(part.bounds) > 0
    firsts = np.zeros(len(part), np.int64)
    firsts[has_any] = part.values[AT["first_sequence"], begins[has_any]]
    return firsts


def _least_sequence(part: WindowColumns) -> int:
    return int(_first_sequences(part).min()) if len(part) else 0
