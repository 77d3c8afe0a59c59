"""The cache of openings: connections that open with equal forms come to equal ends.

The judgement cache (`judgement_cache.py`) holds transitions that lead back to their state. An opening leads
from nothing to a connection, with facts and claims in which its own IDs, addresses, times and sequences
stand. What comes of an opening is remembered as a template by its form, and the values are put into it.

The contract:

- Openings share a template if their forms are equal: the same statements in the same order, apart from IDs
  that are the connection's own; the same IDs equal; each response after the same request; the same frames
  captured at one moment; times and sequences ascending; and the same configuration of the server.
- A template is learned from a probe, an opening of the form whose own values are found nowhere else. It must
  give what the rules give for another probe and for the opening at hand, or the form is judged by the rules
  for ever. The first probe has long pauses between its frames, the second has none, so a rule that compares
  how long something took is seen.
- An opening with a finding, or with an observation about which a rule is asked that declares `uses_progress`,
  goes to the judge. So does one with an unusual frame (`opening_symbol.py`, `opening.py`).
- An opening that a batch cuts goes on by a template, too. Its form is that of the whole opening, and the
  template has what comes of the rest. What was said before is read back from the stored connection, which
  must be byte for byte what the template of the first part lays out (`begun_opening.py`).
- A hit gives what the judge gives: findings (none), checks, counts, claims, what is archived, and the stored
  state, byte for byte. `tests/streaming/judging/test_opening_cache.py` holds both equal on random openings,
  on all cases and mutations, and on captures.
- What is archived depends on windows. If there is an archive, a window is cut where an opening ends, whoever
  judges the opening, and openings share a template only if their windows end after the same frames.
- Learning costs as much as some fifteen openings, so a form is learned when it comes the LEARNED_AT-th time.
- The cache belongs to one worker and one query, and may be cleared at any time; it is when it is full.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from decoders.frame.record import Kind
from expectations.conversation.window import ConnectionKey, Window
from expectations.judging.judge import Judge
from expectations.judging.outcome import Outcome
from streaming.judging.archive_count import ArchiveCount
from streaming.judging.begun_opening import BegunTemplate
from streaming.judging.judged_opening import LONG_PAUSE, SHORT_PAUSE, judge_opening, probe_of
from streaming.judging.opening import Opening, read_opening, split
from streaming.judging.opening_symbol import OpeningSymbol
from streaming.judging.opening_template import OpeningTemplate, ServerShown, decoded_claims
from streaming.judging.server_responses import ServerResponses
from streaming.judging.stored_template import Places, StoredKind, kind_of
from streaming.judging.symbols import Symbols
from streaming.judging.tally import Tally
from streaming.state.bucket import Bucket
from streaming.state.connection_layout import NOWHERE
from streaming.state.connections import Connections, LaidOut

LEARNED_AT: Final = 8
TEMPLATES: Final = 2_000
"""Templates that are kept, of some 10 kB each."""
FORMS: Final = 20_000
"""Forms and codes of statements that are kept, of up to 1 kB each."""
FORMS_OF_KIND: Final = 16
"""Forms whose connections are stored with equal fingerprints, that are tried on one that goes on."""


_Form = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""The number of a server that users configure, an opening's form, where its windows end, and how many
observations of it earlier batches have."""
_Read = Callable[[Connections, list[Window], Symbols[OpeningSymbol]], Opening | None]
"""Reads the opening that windows of one connection are part of, None if there is none."""


class OpeningCache:
    """Judges openings by templates. `clears` counts how often it was full, `hits` the openings so judged."""

    def __init__(self, judge: Judge) -> None:
        self.clears = 0
        self.hits = 0
        self._judge = judge
        self._numbers: dict[bytes, int] = {}
        self._seen: dict[_Form, int] = {}
        self._templates: dict[_Form, OpeningTemplate | None] = {}
        self._begun: dict[StoredKind, list[BegunTemplate]] = {}

    def judge(
        self,
        bucket: Bucket,
        responses: ServerResponses,
        tally: Tally,
        counted: ArchiveCount | None,
        windows: Iterable[Window],
    ) -> list[Window]:
        """Judge the openings among windows, which are ordered by connection, and return the other windows."""
        if self._judge.sees_all:
            return list(windows)
        self._make_room()
        return self._judge_all(_Openings(bucket, responses, tally, counted), windows, self._beginning)

    def go_on(
        self,
        bucket: Bucket,
        responses: ServerResponses,
        tally: Tally,
        counted: ArchiveCount | None,
        windows: Iterable[Window],
    ) -> list[Window]:
        """Judge the openings that earlier batches began, and return the other windows.

        The windows are ordered by connection. Nothing else of their connections was judged in this batch.
        """
        if self._judge.sees_all:
            return list(windows)
        return self._judge_all(_Openings(bucket, responses, tally, counted), windows, self._going_on)

    def _judge_all(self, openings: _Openings, windows: Iterable[Window], read: _Read) -> list[Window]:
        """Judge what is read as an opening, and return the other windows."""
        symbols = Symbols(lambda statement: OpeningSymbol(statement, self._number_of))
        left: list[Window] = []
        for _, group in itertools.groupby(windows, key=_connection):
            said = list(group)
            opening = read(openings.bucket.connections, said, symbols)
            left += said if opening is None else self._judge_opening(said, opening, openings)
        openings.finish()
        return left

    def _beginning(
        self, connections: Connections, said: list[Window], symbols: Symbols[OpeningSymbol]
    ) -> Opening | None:
        """Read the opening of a connection that is unknown so far."""
        key = said[0].connection
        if not _begins(said[0]) or not connections.is_unknown(key.id):
            return None
        return read_opening(said, symbols, self._judge.listener(key.server))

    def _going_on(
        self, connections: Connections, said: list[Window], symbols: Symbols[OpeningSymbol]
    ) -> Opening | None:
        """Read how the opening of a stored connection goes on."""
        window = said[0]
        key, place = window.connection, connections.place(window.connection.id)
        # Most connections that end have done more than open: to look for an opening would be in vain.
        if place == NOWHERE or not window.numbers or window.statements[window.numbers[0]].kind is Kind.CLOSED:
            return None
        row, layout, listener = connections.row(place), connections.layout, self._judge.listener(key.server)
        for begun in self._begun.get(kind_of(row, layout), ()):
            found = begun.going_on(key, listener, row, bytes(connections.content(place)), layout)
            if found is not None:
                return found.reader.read(said, symbols, listener)
        return None

    def _judge_opening(self, windows: list[Window], opening: Opening, openings: _Openings) -> list[Window]:
        """Judge an opening by its template, and return the windows that are not part of it."""
        begun, left = split(windows, len(opening.said))
        if openings.counted is not None:
            windows = [*begun, *left]
            opening = opening._replace(ends=tuple(itertools.accumulate(len(each.numbers) for each in begun)))
        template = self._template(opening)
        if template is None:
            return windows
        self.hits += 1
        openings.add(opening, template, begun)
        return left

    def _template(self, opening: Opening) -> OpeningTemplate | None:
        configured = self._judge.configured(opening.key.server)
        known = 0 if configured is None else self._number_of(opening.key.server.encode())
        form = known, opening.form, opening.ends, opening.before
        if form not in self._templates:
            times = self._seen[form] = self._seen.get(form, 0) + 1
            if times < LEARNED_AT:
                return None
            self._templates[form] = self._learn(opening, keeps_server=configured is not None)
            del self._seen[form]
        return self._templates[form]

    def _learn(self, opening: Opening, *, keeps_server: bool) -> OpeningTemplate | None:
        template: OpeningTemplate | None = None
        whole = opening.whole()
        for pause in (LONG_PAUSE, SHORT_PAUSE, None):
            tried = whole if pause is None else probe_of(whole, pause, keeps_server=keeps_server)
            judged = judge_opening(self._judge, tried, opening.before)
            if judged is None:
                return None
            template = template or OpeningTemplate(judged, tried)
            if not template.fits(judged, tried):
                return None
        if template is not None and template.stored is not None:
            begun = self._begun.setdefault(template.stored.kind, [])
            if len(begun) < FORMS_OF_KIND:
                begun.append(BegunTemplate(template, whole))
        return template

    def _number_of(self, code: bytes) -> int:
        return self._numbers.setdefault(code, len(self._numbers) + 1)

    def _make_room(self) -> None:
        """Clear what is full, before a step: the symbols of a step know the numbers of their codes."""
        if len(self._templates) > TEMPLATES or max(len(self._seen), len(self._numbers)) > FORMS:
            self._templates.clear()
            self._begun.clear()
            self._seen.clear()
            self._numbers.clear()
            self.clears += 1


class _Openings:
    """The openings of one step that are judged by templates."""

    def __init__(
        self,
        bucket: Bucket,
        responses: ServerResponses,
        tally: Tally,
        counted: ArchiveCount | None,
    ) -> None:
        self.bucket = bucket
        self._responses = responses
        self._tally = tally
        self.counted = counted
        self._places: dict[OpeningTemplate, Places] = {}
        self._laid_out: list[LaidOut] = []
        self._claims: list[bytes] = []
        self._claim_count = 0
        self._shown: dict[tuple[ServerShown, str, str], tuple[tuple[int, bytes], int]] = {}

    def add(self, opening: Opening, template: OpeningTemplate, windows: Sequence[Window]) -> None:
        """Add an opening; `windows` are those that it is made of."""
        key, bucket, stored = opening.key, self.bucket, template.stored
        if stored is None:
            values = template.values(opening)
            if opening.before:
                del bucket.connections[key.id]
        else:
            places = self._places.get(template)
            if places is None:
                places = self._places[template] = stored.places(bucket.connections.layout)
            values = template.values(opening, places.advertised)
            self._laid_out.append(stored.laid_out(values, places, bucket.connections.layout))
        self._tally.count_opening(template.checks, opening.listener)
        if template.advertised is not None:
            advertised, at = template.advertised
            self._tally.show(key, opening.listener, advertised, values[at])
        self._claims.append(template.claims.filled(values))
        self._claim_count += template.claim_count
        for shown in template.shown:
            self._add_shown(shown, key, values[shown.at])
        if not template.versions <= self._responses.known(key):
            self._responses.add(key, template.first_responses(values))
        if self.counted is not None:
            self._count(self.counted, opening, template, values, windows)
        bucket.clock = max(bucket.clock, opening.captured_at)

    def finish(self) -> None:
        """Store the connections, and pass their claims on."""
        self.bucket.connections.add(self._laid_out)
        claims = decoded_claims(self._claims, self._claim_count)
        for (shown, cluster, server), (first, until) in self._shown.items():
            claims.append(shown.claimed(cluster, server, first, until))
        if claims:
            self._tally.add(Outcome(claims=claims), listener="")

    def _add_shown(self, shown: ServerShown, key: ConnectionKey, at: int) -> None:
        """Add what a server showed: of equal claims only the first and the last time counts."""
        server = shown, key.cluster, key.server
        first, until = self._shown.get(server, ((at, key.id), at))
        self._shown[server] = min(first, (at, key.id)), max(until, at)

    def _count(
        self,
        counted: ArchiveCount,
        opening: Opening,
        template: OpeningTemplate,
        values: list[object],
        windows: Sequence[Window],
    ) -> None:
        for end, window in zip(opening.ends, windows, strict=True):
            counted.add(window, template.speaker(end, opening, values), opening.listener)
        counted.add_changes(template.changed(values))


def _connection(window: Window) -> bytes:
    return window.connection.id


def _begins(window: Window) -> bool:
    """Whether a window begins with the beginning of its connection."""
    return bool(window.numbers) and window.statements[window.numbers[0]].kind is Kind.OPENED
