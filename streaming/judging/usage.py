"""Usage: who sends which API version and gets which errors, a minute at a time, counted as it is judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.record import Kind
from expectations.conversation.bodies import ClassicGroup
from expectations.conversation.observation import Statement, Window
from expectations.judging.judge import ConnectionState
from streaming.judging.changes import Before, ChangeCount, Changes
from streaming.judging.part import Part, groups

MINUTE: Final = 60_000_000_000
"""Nanoseconds."""
PREFIX: Final = 4
"""The bytes of a frame's length, which its size leaves out."""
LIMIT: Final = 1000
"""Uses that one step of a bucket tells apart; the clients of further ones fold into one."""
UNCERTAIN: Final = -1
"""The header version of requests whose header is uncertain; API and version of folded unknown APIs."""


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


class _Count:
    """What is counted of one use: its usage, and the IDs of connections by header version."""

    def __init__(self, use: Use) -> None:
        self.usage = Usage(use)
        self._connections: dict[int, list[NDArray[np.void]]] = {}

    def add(self, statement: Statement, count: int, size: int, connections: NDArray[np.void]) -> None:
        """Add occurrences of a request or a response on some connections."""
        usage, size = self.usage, size + PREFIX * count
        if statement.kind is Kind.REQUEST:
            version = UNCERTAIN if statement.header_version is None else statement.header_version
            usage.requests[version] = usage.requests.get(version, 0) + count
            usage.request_bytes[version] = usage.request_bytes.get(version, 0) + size
            self._connections.setdefault(version, []).append(connections)
        else:
            usage.response_bytes += size
            for code in filter(None, statement.errors or ()):
                usage.errors[code] = usage.errors.get(code, 0) + count

    def report(self) -> Usage:
        """Return what was counted."""
        for version, connections in self._connections.items():
            self.usage.connections[version] = len(np.unique(np.concatenate(connections)))
        return self.usage


class UsageCount:
    """Adds up the usage of one step. At most LIMIT uses tell clients apart."""

    def __init__(self) -> None:
        self._counts: dict[Use, _Count] = {}

    def add(self, part: Part, listeners: list[str]) -> None:
        """Add the frames of a part; `listeners` are those of its servers."""
        counted = part.of([each.kind is Kind.REQUEST or each.is_matched for each in part.statements])
        (at,) = np.nonzero(counted & part.is_new)
        windows, counts, sizes = part.windows[at], part.values("count")[at], part.values("size")[at]
        minutes = part.values("last_captured_at")[at] // MINUTE
        speakers, speaker_of = _speakers(part)
        ids = np.frombuffer(part.columns.ids, "V16")
        for (speaker, minute, template), places in groups(speaker_of[windows], minutes, part.templates[at]):
            server, name, version, client_id = speakers[speaker]
            statement = part.statements[template]
            use = Use(
                minute,
                part.columns.servers[server][0],
                listeners[server],
                name,
                version,
                client_id,
                statement.api_key,
                statement.api_version,
            )
            count = int(counts[places].sum()), int(sizes[places].sum())
            self._count_of(use, statement).add(statement, *count, ids[windows[places]])

    def report(self) -> list[Usage]:
        """Return what was counted."""
        return [count.report() for count in self._counts.values()]

    def _count_of(self, use: Use, statement: Statement) -> _Count:
        if use not in self._counts and len(self._counts) >= LIMIT:
            api = (use.api_key, use.api_version) if statement.known else (UNCERTAIN, UNCERTAIN)
            use = Use(use.minute, use.cluster, use.listener, None, None, None, *api, folded=True)
        count = self._counts.get(use)
        if count is None:
            count = self._counts[use] = _Count(use)
        return count


_Speaker = tuple[int, str | None, str | None, str | None]
"""Who sends: the place of the server, the name and version of the software, and the client ID."""


def _speakers(part: Part) -> tuple[list[_Speaker], NDArray[np.int64]]:
    """Return who speaks, and the number of each window's speaker."""
    numbers: dict[_Speaker, int] = {}
    of_windows = []
    for server, software, client_id in zip(
        part.columns.server_of.tolist(), part.software, part.clients, strict=True
    ):
        named = (software.name, software.version) if software else (None, None)
        of_windows.append(numbers.setdefault((server, *named, client_id or None), len(numbers)))
    return list(numbers), np.array(of_windows, np.int64)


class ArchiveCount:
    """Adds up the usage and the changes of one step. `listener` names the listener at a server's address."""

    def __init__(self, listener: Callable[[str], str]) -> None:
        self._listener = listener
        self._usage, self._changes = UsageCount(), ChangeCount()

    def before(self, state: ConnectionState) -> Before:
        """Return what is known of a connection before a window."""
        return Before.of(state, self._listener(state.conversation.server))

    def add_change(self, window: Window, before: Before, state: ConnectionState, judged_until: int) -> None:
        """Add what a window changed of its connection, which is now `state`."""
        listener = self._listener(state.conversation.server)
        self._changes.add(window, before, state, listener, judged_until)

    def add(self, part: Part) -> None:
        """Add the usage of a part, and its requests to join and leave classic groups."""
        listeners = [self._listener(server) for _, server, _ in part.columns.servers]
        self._usage.add(part, listeners)
        classic = part.of([isinstance(each.body, ClassicGroup) for each in part.statements])
        for number in np.unique(part.windows[classic & part.is_new]).tolist():
            window, named = part.columns.window(number), (part.software[number], part.clients[number])
            listener = listeners[part.columns.server_of[number]]
            self._changes.add_classic(window, *named, listener, int(part.latest[number]))

    def report(self) -> tuple[list[Usage], Changes]:
        """Return what was counted."""
        return self._usage.report(), self._changes.report()
