"""Usage: who sends which API version and gets which errors, a minute at a time, counted as it is judged."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from decoders.frame.columnar.block import ID_BYTES
from decoders.frame.record import Kind
from decoders.wire.framing import PREFIX
from streaming.judging.part import Said

LIMIT: Final = 4_000
"""Uses that one step of a bucket tells apart; the clients of further ones fold into one."""
UNCERTAIN: Final = -1
"""The header version of requests whose header is uncertain; API and version of folded unknown APIs."""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """What is counted together: a minute (of the Unix epoch), the sender, and the API version.

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


class UsageCount:
    """Adds up the usage of one step. At most LIMIT uses tell clients apart."""

    def __init__(self) -> None:
        self._usage: dict[Use, Usage] = {}
        self._connections: dict[tuple[Use, int], list[NDArray[np.void]]] = {}
        """The IDs of connections by header version."""

    def add(self, said: Said, listener: str) -> None:
        """Add what was said at a listener."""
        statement, count = said.statement, said.frames
        if statement.kind is not Kind.REQUEST and not statement.is_matched:
            return
        # Sizes leave out the bytes of a frame's length.
        usage, size = self._usage_of(said, listener), int(said.values("size").sum()) + PREFIX * count
        if statement.kind is Kind.REQUEST:
            version = UNCERTAIN if statement.header_version is None else statement.header_version
            usage.requests[version] = usage.requests.get(version, 0) + count
            usage.request_bytes[version] = usage.request_bytes.get(version, 0) + size
            ids = np.frombuffer(said.part.columns.ids, f"V{ID_BYTES}")
            self._connections.setdefault((usage.use, version), []).append(ids[said.windows])
        else:
            usage.response_bytes += size
            for code in filter(None, statement.errors or ()):
                usage.errors[code] = usage.errors.get(code, 0) + count

    def report(self) -> list[Usage]:
        """Return what was counted."""
        for (use, version), connections in self._connections.items():
            self._usage[use].connections[version] = len(np.unique(np.concatenate(connections)))
        return list(self._usage.values())

    def _usage_of(self, said: Said, listener: str) -> Usage:
        statement, software = said.statement, said.software
        name, version = (software.name, software.version) if software else (None, None)
        where, api = (said.minute, said.cluster, listener), (statement.api_key, statement.api_version)
        use = Use(*where, name, version, said.client_id or None, *api)
        if use not in self._usage and len(self._usage) >= LIMIT:
            api = api if statement.known else (UNCERTAIN, UNCERTAIN)
            use = Use(*where, None, None, None, *api, folded=True)
        usage = self._usage.get(use)
        if usage is None:
            usage = self._usage[use] = Usage(use)
        return usage
