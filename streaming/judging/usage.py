"""Usage: who sends which API version and gets which errors, a minute at a time, counted as it is judged."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.frame.record import Kind
from expectations.conversation.observation import Statement
from streaming.judging.part import Said

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

    def add(self, said: Said) -> None:
        """Add a request or a response of some connections."""
        usage, statement, count = self.usage, said.statement, said.frames
        size = int(said.values("size").sum()) + PREFIX * count
        if statement.kind is Kind.REQUEST:
            version = UNCERTAIN if statement.header_version is None else statement.header_version
            usage.requests[version] = usage.requests.get(version, 0) + count
            usage.request_bytes[version] = usage.request_bytes.get(version, 0) + size
            ids = np.frombuffer(said.part.columns.ids, f"V{ID_BYTES}")
            self._connections.setdefault(version, []).append(ids[said.windows])
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

    def add(self, said: Said, listener: str) -> None:
        """Add what was said at a listener."""
        statement, software = said.statement, said.software
        if statement.kind is not Kind.REQUEST and not statement.is_matched:
            return
        use = Use(
            said.minute,
            said.part.columns.servers[said.server][0],
            listener,
            software.name if software else None,
            software.version if software else None,
            said.client_id or None,
            statement.api_key,
            statement.api_version,
        )
        self._count_of(use, statement).add(said)

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
