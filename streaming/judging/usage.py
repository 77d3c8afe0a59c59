"""Usage: who sends which API version and gets which errors, a minute at a time, counted as it is judged."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from decoders.frame.record import Kind
from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.conversation import Conversation
from expectations.conversation.statement import Statement
from expectations.conversation.window import Window
from expectations.judging.id_numbers import NO_ID
from streaming.state.connections import Connections

MINUTE: Final = 60_000_000_000
"""Nanoseconds."""
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
    """Requests of a use by header version, and responses by each error code in them but 0."""

    use: Use
    requests: dict[int, int] = {}
    errors: dict[int, int] = {}


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

    def of(self, connections: Connections, connection: bytes) -> Speaker:
        """Return the speaker of a connection whose state is stored and was not read."""
        place = connections.place(connection)
        row, layout = connections.row(place), connections.layout
        if row.client not in self._client_ids:
            if len(self._client_ids) >= KNOWN_CLIENT_IDS:
                self._client_ids = {NO_ID: None}
            state = layout.read(connection, row, connections.content(place))
            self._client_ids[row.client] = state.conversation.client_id
        cluster, server, *_ = layout.servers.value(row.server)
        return Speaker(cluster, server, layout.software(row.software), self._client_ids[row.client])


class UsageCount:
    """Adds up the usage of one step. At most LIMIT uses tell clients apart."""

    def __init__(self) -> None:
        self._usage: dict[Use, Usage] = {}

    def add(self, window: Window, speaker: Speaker, listener: str, judged_until: int = 0) -> None:
        """Count the frames of a window, except those up to a sequence, which were judged before."""
        for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
            if occurrence.last_sequence <= judged_until:
                continue
            statement = window.statements[number]
            minute = occurrence.last_captured_at // MINUTE
            if statement.kind is Kind.REQUEST:
                version = UNCERTAIN if statement.header_version is None else statement.header_version
                requests = self._of(minute, statement, speaker, listener).requests
                requests[version] = requests.get(version, 0) + occurrence.count
            elif statement.kind is Kind.RESPONSE and statement.errors and statement.is_matched:
                for code in filter(None, statement.errors):
                    errors = self._of(minute, statement, speaker, listener).errors
                    errors[code] = errors.get(code, 0) + occurrence.count

    def report(self) -> list[Usage]:
        """Return what was counted."""
        return list(self._usage.values())

    def _of(self, minute: int, statement: Statement, speaker: Speaker, listener: str) -> Usage:
        software = speaker.software
        named = (software.name, software.version) if software else (None, None)
        api = statement.api_key, statement.api_version
        use = Use(minute, speaker.cluster, listener, named[0], named[1], speaker.client_id, api[0], api[1])
        usage = self._usage.get(use)
        if usage is None and len(self._usage) >= LIMIT:
            api = api if statement.known else (UNCERTAIN, UNCERTAIN)
            use = Use(minute, speaker.cluster, listener, None, None, None, api[0], api[1], folded=True)
            usage = self._usage.get(use)
        if usage is None:
            usage = self._usage[use] = Usage(use)
        return usage
