"""A key log: the secrets of TLS connections by their client random, in NSS key log format.

Format: https://datatracker.ietf.org/doc/draft-ietf-tls-keylogfile/. A line is a label, the client random and
the secret, both in hexadecimal. TLS 1.2 logs one master secret for a connection, TLS 1.3 one secret for each
direction and stage.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MAX_CONNECTIONS: Final = 1 << 16
"""Client randoms that a key log holds. Each takes about 1 KiB."""
MAX_LINE: Final = 512
"""Bytes of a line. The longest that is read has 31 + 64 + 96 characters, and blanks."""
MASTER_SECRET: Final = "CLIENT_RANDOM"
"""The label of TLS 1.2's master secret, which names the client random that all lines have."""
_RANDOM_SIZE = 32
_TLS_13_SIZES = frozenset({32, 48})
"""Bytes of a secret: those of the hash, SHA-256 or SHA-384."""
_SIZES: Final = {
    MASTER_SECRET: frozenset({48}),
    "CLIENT_EARLY_TRAFFIC_SECRET": _TLS_13_SIZES,
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET": _TLS_13_SIZES,
    "SERVER_HANDSHAKE_TRAFFIC_SECRET": _TLS_13_SIZES,
    "CLIENT_TRAFFIC_SECRET_0": _TLS_13_SIZES,
    "SERVER_TRAFFIC_SECRET_0": _TLS_13_SIZES,
}
LABELS: Final = frozenset(_SIZES)
"""The labels whose secrets are kept."""
_NOT_KEPT = frozenset({"EXPORTER_SECRET", "EARLY_EXPORTER_SECRET"})
"""Labels of secrets that decrypt nothing on the wire."""
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


class _Secrets(dict[str, bytes]):
    """Secrets by label, whose repr shows the labels alone."""

    def __repr__(self) -> str:
        return f"<secrets of {', '.join(self)}>"

    __str__ = __repr__


class KeyLog:
    """The secrets of the connections that were added or looked up last, in memory only.

    `version` grows with each secret that is new: what waits for a secret need not look before.
    `unknown_labels` and `broken_lines` count lines that were skipped, `dropped` counts connections that made
    room for newer ones. Not safe to use from several threads.
    """

    def __init__(self, capacity: int = MAX_CONNECTIONS) -> None:
        self.version = 0
        self.unknown_labels = 0
        self.broken_lines = 0
        self.dropped = 0
        self._capacity = capacity
        self._secrets: OrderedDict[bytes, _Secrets] = OrderedDict()
        self._incomplete: dict[str, bytes] = {}

    def __len__(self) -> int:
        """Return the number of client randoms with secrets."""
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<key log of {len(self)} connections>"

    def add(self, text: str | bytes, source: str = "") -> None:
        """Read lines of a key log; what is no line of one is counted and skipped.

        A line without an end is continued by the next text of the same source, the path of a file.
        """
        data = text.encode(errors="replace") if isinstance(text, str) else text
        *lines, rest = (self._incomplete.pop(source, b"") + data).split(b"\n")
        for line in lines:
            self._add_line(line)
        if rest:
            # More than a line is none: enough is kept that it is still too long when its end arrives.
            self._incomplete[source] = rest[: MAX_LINE + 1]

    def end(self, source: str = "") -> None:
        """Read what is left of a source as its last line, because its text has ended."""
        self._add_line(self._incomplete.pop(source, b""))

    def secrets(self, client_random: bytes) -> Mapping[str, bytes]:
        """Return the secrets of a connection by label; empty if there is none."""
        found = self._secrets.get(client_random)
        if found is None:
            return _NOTHING
        self._secrets.move_to_end(client_random)
        return found

    def forget(self, client_random: bytes) -> None:
        """Drop the secrets of a connection that has ended."""
        self._secrets.pop(client_random, None)

    def _add_line(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            self.broken_lines += 1
            return
        words = line.decode("latin-1").split()
        if not words or words[0].startswith("#"):
            return
        label = words[0]
        if label not in LABELS:
            self.unknown_labels += label not in _NOT_KEPT
            return
        values = _values(words[1:])
        if values is None or len(values[0]) != _RANDOM_SIZE or len(values[1]) not in _SIZES[label]:
            self.broken_lines += 1
            return
        self._keep(label, *values)

    def _keep(self, label: str, client_random: bytes, secret: bytes) -> None:
        known = self._secrets.setdefault(client_random, _Secrets())
        if known.get(label) == secret:
            return
        known[label] = secret
        self.version += 1
        self._secrets.move_to_end(client_random)
        while len(self._secrets) > self._capacity:
            self._secrets.popitem(last=False)
            self.dropped += 1


def _values(words: list[str]) -> tuple[bytes, bytes] | None:
    """Return client random and secret of a line, None if it has not exactly these two in hexadecimal."""
    try:
        client_random, secret = words
        return bytes.fromhex(client_random), bytes.fromhex(secret)
    except ValueError:
        return None
