"""Usage: who sends which API version and gets which errors, a minute at a time, counted as it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.bodies import ClassicGroup, SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.statement import Statement
from expectations.conversation.window import Window
from expectations.judging.id_numbers import NO_ID
from streaming.state.connection_layout import Row
from streaming.state.connections import Connections

if TYPE_CHECKING:  # numba, which it needs, takes a while to load
    import numpy as np
    from numpy.typing import NDArray

    from expectations.conversation.columnar.window_columns import WindowColumns

MINUTE: Final = 60_000_000_000
"""Nanoseconds."""
PREFIX: Final = 4
"""The bytes of a frame's length, which its size leaves out."""
LIMIT: Final = 1000
"""Uses that one step of a bucket tells apart; the clients of further ones fold into one."""
KNOWN_CLIENT_IDS: Final = 100_000
"""Client IDs that a worker remembers by their numbers."""
UNCERTAIN: Final = -1
"""The header version of requests whose header is not certain, and the API of folded ones nobody knows."""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """What is counted together: a minute (of the Unix epoch), who sent, and what.

    `folded` marks the sum of clients beyond LIMIT: it has neither software nor client ID.
    """

    minute: int
    cluster: str
    listener: str
    software_name: str | None
    software_version: str | None
    client_id: str | None
    api_key: int
    api_version: int
    folded: bool = False


class Usage(msgspec.Struct, array_like=True):
    """Requests of a use by header version, and responses by each error code in them but 0.

    `request_bytes` and `connections`, too, are by header version. A connection counts once in a step. Bytes
    are those on the wire.
    """

    use: Use
    requests: dict[int, int] = {}
    errors: dict[int, int] = {}
    request_bytes: dict[int, int] = {}
    connections: dict[int, int] = {}
    response_bytes: int = 0


class Speaker(NamedTuple):
    """Who sends on a connection, and to which listener."""

    cluster: str
    server: str
    software: SoftwareClaim | None
    client_id: str | None

    @classmethod
    def of(cls, conversation: Conversation) -> Speaker:
        """Return the speaker of a connection that was read."""
        # An empty client ID has no number of its own, so it counts as none here and for stored connections.
        client_id = conversation.client_id or None
        return cls(conversation.cluster, conversation.server, conversation.software, client_id)


class Speakers:
    """Finds the speaker of a stored connection without reading it, except for client IDs not met before."""

    def __init__(self) -> None:
        self._client_ids: dict[int, str | None] = {NO_ID: None}

    def of(self, connections: Connections, connection: bytes, row: Row) -> Speaker:
        """Return the speaker of a connection whose state is stored, in a row, and was not read."""
        layout = connections.layout
        if row.client not in self._client_ids:
            if len(self._client_ids) >= KNOWN_CLIENT_IDS:
                self._client_ids = {NO_ID: None}
            state = layout.read(connection, row, connections.content(connections.place(connection)))
            self._client_ids[row.client] = state.conversation.client_id
        cluster, server, *_ = layout.servers.value(row.server)
        return Speaker(cluster, server, layout.software(row.software), self._client_ids[row.client])


_Call = tuple[int, int, int, bool]
"""A minute, an API key, an API version, and whether the schemas know it."""


class _Count:
    """What is counted of one use, while it is counted."""

    __slots__ = ("connections", "usage")

    def __init__(self, use: Use) -> None:
        self.usage = Usage(use)
        self.connections: dict[int, dict[bytes, int]] = {}

    def add(self, statement: Statement, sums: _Sums) -> None:
        """Add occurrences of a request or a response."""
        usage, size = self.usage, sums.size + PREFIX * sums.count
        if statement.kind is Kind.REQUEST:
            version = UNCERTAIN if statement.header_version is None else statement.header_version
            usage.requests[version] = usage.requests.get(version, 0) + sums.count
            usage.request_bytes[version] = usage.request_bytes.get(version, 0) + size
            self.connections.setdefault(version, {}).update(sums.connections or {})
        else:
            usage.response_bytes += size
            for code in filter(None, statement.errors or ()):
                usage.errors[code] = usage.errors.get(code, 0) + sums.count

    def report(self) -> Usage:
        """Return what was counted."""
        connections = {version: sum(each.values()) for version, each in self.connections.items()}
        return msgspec.structs.replace(self.usage, connections=connections)


class _Sums:
    """The sums of a statement's occurrences within a minute.

    Only requests have `connections`: how many there are, by the ID of one of them. Connections that are added
    up together in a step are nowhere else in it, so one ID stands for all of them.
    """

    __slots__ = ("connections", "count", "is_classic", "size")

    def __init__(self, statement: Statement) -> None:
        self.count = self.size = 0
        self.connections: dict[bytes, int] | None = {} if statement.kind is Kind.REQUEST else None
        self.is_classic = isinstance(statement.body, ClassicGroup)


class Said(NamedTuple):
    """What some of the windows of `columns` say within the minute that begins at `at`, in nanoseconds.

    These are the windows with `number` in `sums` (int64), of as many connections; `first` is the first of
    them. Each element of `counts` and `sizes` is the sum over the occurrences at a place in the windows,
    `numbers` are those of their statements in the first window. `stored` has the numbers of the server, the
    software and the client ID of all of them.
    """

    columns: WindowColumns
    sums: NDArray[np.int64]
    number: int
    connections: int
    first: int
    at: int
    numbers: list[int]
    counts: list[int]
    sizes: list[int]
    stored: tuple[int, int, int]


class Spoken:
    """What a speaker says to a listener, in a step: sums by table of statements, minute and number.

    They are added up to uses when the step ends: a use is long to hash, and a step has thousands of windows.
    Windows that follow each other mostly share table and minute, so these are looked up when they change.
    """

    __slots__ = ("_begin", "_end", "_statements", "_sums", "listener", "speaker", "tables")

    def __init__(self, speaker: Speaker, listener: str) -> None:
        self.speaker = speaker
        self.listener = listener
        self.tables: dict[tuple[int, int], tuple[Mapping[int, Statement], dict[int, _Sums]]] = {}
        self._statements: Mapping[int, Statement] | None = None
        self._begin = self._end = 0
        self._sums: dict[int, _Sums] = {}

    def add(self, window: Window, judged_until: int = 0) -> bool:
        """Add the frames of a window, except those up to a sequence, which were judged before.

        Returns whether there are requests to join or leave a classic group among them.
        """
        key, numbers, occurrences, statements = window
        connection = key.id
        if statements is not self._statements:
            self._statements, self._end = statements, 0
        begin, end, sums, has_classic = self._begin, self._end, self._sums, False
        for number, occurrence in zip(numbers, occurrences, strict=True):
            if occurrence.last_sequence <= judged_until:
                continue
            at = occurrence.last_captured_at
            if not begin <= at < end:
                begin, end, sums = self._look_up(statements, at)
            found = sums.get(number)
            if found is None:
                found = sums[number] = _Sums(statements[number])
            found.count += occurrence.count
            found.size += occurrence.size
            if found.connections is not None:
                found.connections[connection] = 1
                has_classic = has_classic or found.is_classic
        return has_classic

    def add_said(self, said: Said) -> bool:
        """Add the frames of windows that were added up. Returns what `add` does."""
        statements = self._statements = said.columns.statements
        _, _, sums = self._look_up(statements, said.at)
        connection, has_classic = said.columns.id(said.first), False
        for number, count, size in zip(said.numbers, said.counts, said.sizes, strict=True):
            found = sums.get(number)
            if found is None:
                found = sums[number] = _Sums(statements[number])
            found.count += count
            found.size += size
            if found.connections is not None:
                found.connections[connection] = said.connections
                has_classic = has_classic or found.is_classic
        return has_classic

    def _look_up(self, statements: Mapping[int, Statement], at: int) -> tuple[int, int, dict[int, _Sums]]:
        """Look the sums of a table and of the minute of a time up. Returns when that begins and ends, too."""
        self._begin = at - at % MINUTE
        self._end = self._begin + MINUTE
        # The table is kept, so that no other one gets its identity.
        key = id(statements), self._begin // MINUTE
        table = self.tables.get(key)
        if table is None:
            table = self.tables[key] = statements, {}
        self._sums = table[1]
        return self._begin, self._end, self._sums


class UsageCount:
    """Adds up the usage of one step. At most LIMIT uses tell clients apart."""

    def __init__(self) -> None:
        self._spoken: dict[tuple[Speaker, str], Spoken] = {}

    def spoken(self, speaker: Speaker, listener: str) -> Spoken:
        """Return what a speaker says to a listener, to add to it."""
        spoken = self._spoken.get((speaker, listener))
        if spoken is None:
            spoken = self._spoken[speaker, listener] = Spoken(speaker, listener)
        return spoken

    def report(self) -> list[Usage]:
        """Return what was counted."""
        counts: dict[Use, _Count] = {}
        for spoken in self._spoken.values():
            known: dict[_Call, _Count] = {}
            for (_, minute), (statements, sums) in spoken.tables.items():
                for number, found in sums.items():
                    statement = statements[number]
                    if statement.kind is Kind.REQUEST or statement.is_matched:
                        call = minute, statement.api_key, statement.api_version, statement.known
                        count = known.get(call)
                        if count is None:
                            count = known[call] = _count_of(counts, minute, statement, spoken)
                        count.add(statement, found)
        return [count.report() for count in counts.values()]


def _count_of(counts: dict[Use, _Count], minute: int, statement: Statement, spoken: Spoken) -> _Count:
    speaker, listener, software = spoken.speaker, spoken.listener, spoken.speaker.software
    name, version = (software.name, software.version) if software else (None, None)
    api = statement.api_key, statement.api_version
    use = Use(minute, speaker.cluster, listener, name, version, speaker.client_id, *api)
    if use not in counts and len(counts) >= LIMIT:
        if not statement.known:
            api = UNCERTAIN, UNCERTAIN
        use = Use(minute, speaker.cluster, listener, None, None, None, *api, folded=True)
    count = counts.get(use)
    if count is None:
        count = counts[use] = _Count(use)
    return count
