"""A key log: the secrets of TLS connections by their client random, in NSS key log format.

Format: https://datatracker.ietf.org/doc/draft-ietf-tls-keylogfile/. A line is a label, the client random and
the secret, both in hexadecimal. TLS 1.2 logs one master secret for a connection, TLS 1.3 one secret for each
direction and stage. JVM agents know TLS 1.2's master secret by the session ID instead, and log it as
`RSA Session-ID:ID Master-Key:SECRET`, the older form.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

MAX_CONNECTIONS: Final = 1 << 16
"""Connections and sessions that a key log holds. Each takes about 1 KiB."""
MAX_LINE: Final = 512
"""Bytes of a line. The longest that is read has 31 + 64 + 96 characters, and blanks."""
MASTER_SECRET: Final = "CLIENT_RANDOM"
"""The label of TLS 1.2's master secret, which names the client random that all lines have."""
_SESSION = "RSA Session-ID:"
_RANDOM_SIZE, _LONGEST_SESSION_ID, _MASTER_SECRET_SIZE = 32, 32, 48
_TLS_13_SIZES = frozenset({32, 48})
"""Bytes of a secret: those of the hash, SHA-256 or SHA-384."""
CLIENT_HANDSHAKE: Final = "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
"""The label of the secret that protects the client's certificate in TLS 1.3."""
_SIZES: Final = {
    MASTER_SECRET: frozenset({_MASTER_SECRET_SIZE}),
    CLIENT_HANDSHAKE: _TLS_13_SIZES,
    "CLIENT_TRAFFIC_SECRET_0": _TLS_13_SIZES,
    "SERVER_TRAFFIC_SECRET_0": _TLS_13_SIZES,
}
LABELS: Final = frozenset(_SIZES)
"""The labels whose secrets are kept."""
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


class _Key(NamedTuple):
    """The client random or session ID in a line."""

    is_session: bool
    value: bytes


class _Secrets(dict[str, bytes]):
    """Secrets by label, whose repr shows the labels alone."""

    def __repr__(self) -> str:
        return f"<secrets of {', '.join(self)}>"

    __str__ = __repr__


class KeyLog:
    """The secrets of the connections that were added or looked up last, in memory only.

    `version` grows with each new secret, so a caller that waits for one looks it up only after a change. It
    does not grow with tickets: strangers can show as many as they like, and all who wait would look.
    `broken_lines` counts lines without what their label demands. `is_expected` is False as long as no text
    was added and none is announced: only the capture itself might bring secrets. TLS is opaque then, as
    without a key log. Not thread-safe.
    """

    def __init__(self, capacity: int = MAX_CONNECTIONS, *, is_expected: bool = True) -> None:
        self.is_expected = is_expected
        self.version = 0
        self.broken_lines = 0
        self._capacity = capacity
        self._secrets: OrderedDict[_Key, _Secrets] = OrderedDict()
        self._incomplete: dict[str, bytes] = {}
        self._sessions: OrderedDict[bytes, bytes] = OrderedDict()
        """Session IDs by the digest of the ticket."""

    def __len__(self) -> int:
        """Return the number of client randoms and session IDs with secrets."""
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<key log of {len(self)} connections>"

    def add(self, text: str | bytes, source: str = "") -> None:
        """Read lines of a key log. Lines of another form are skipped.

        The next text of the same source, the path of a file, continues a line without an end.
        """
        self.is_expected = True
        data = text.encode(errors="replace") if isinstance(text, str) else text
        # A writer that keeps its offset in a truncated file leaves zeros before its next line.
        *lines, rest = (self._incomplete.pop(source, b"") + data.replace(b"\0", b"")).split(b"\n")
        for line in lines:
            self._add_line(line)
        if rest:
            # One byte more than a line may have, so that a line that is too long stays so when its end
            # arrives.
            self._incomplete[source] = rest[: MAX_LINE + 1]

    def end(self, source: str = "") -> None:
        """Read the rest of a source as its last line: its text has ended."""
        self._add_line(self._incomplete.pop(source, b""))

    def secrets(self, client_random: bytes, session_id: bytes = b"") -> Mapping[str, bytes]:
        """Return the secrets of a connection by label; empty if there are none.

        `session_id`, that of a ServerHello of TLS 1.2, finds secrets that are logged by session ID.
        """
        for key in (_Key(False, client_random), _Key(True, session_id)):
            if key in self._secrets:
                self._secrets.move_to_end(key)
                return self._secrets[key]
        return _NOTHING

    def remember_ticket(self, ticket: bytes, session_id: bytes) -> None:
        """Note which session of TLS 1.2 a ticket resumes.

        A client that resumes one by its ticket chooses another session ID, which no JVM agent logs.
        """
        if self.session_of(ticket) == session_id:
            return
        digest = _digest(ticket)
        self._sessions[digest] = session_id
        self._sessions.move_to_end(digest)
        while len(self._sessions) > self._capacity:
            self._sessions.popitem(last=False)

    def session_of(self, ticket: bytes) -> bytes | None:
        """Return the ID of the session that a ticket resumes, None if it was not seen."""
        return self._sessions.get(_digest(ticket))

    def forget(self, client_random: bytes) -> None:
        """Drop the secrets of a connection that has ended. Those of a session stay: it may be resumed."""
        self._secrets.pop(_Key(False, client_random), None)

    def _add_line(self, line: bytes) -> None:
        if len(line) > MAX_LINE:
            self.broken_lines += 1
            return
        words = line.decode("latin-1").split()
        if not words or words[0].startswith("#"):
            return
        label, values = words[0], words[1:]
        is_session = " ".join(words).startswith(_SESSION)
        if is_session:
            label, values = MASTER_SECRET, [word.partition(":")[2] for word in values]
        if label not in LABELS:
            return
        read = _read(values)
        if read is None or not _fits(label, *read, is_session=is_session):
            self.broken_lines += 1
            return
        self._keep(_Key(is_session, read[0]), label, read[1])

    def _keep(self, key: _Key, label: str, secret: bytes) -> None:
        known = self._secrets.setdefault(key, _Secrets())
        if known.get(label) == secret:
            return
        known[label] = secret
        self.version += 1
        self._secrets.move_to_end(key)
        while len(self._secrets) > self._capacity:
            self._secrets.popitem(last=False)


def _digest(ticket: bytes) -> bytes:
    return hashlib.sha256(ticket).digest()


def _read(words: list[str]) -> tuple[bytes, bytes] | None:
    """Return the key and the secret of a line, None if it has not exactly these two in hexadecimal."""
    try:
        key, secret = words
        return bytes.fromhex(key), bytes.fromhex(secret)
    except ValueError:
        return None


def _fits(label: str, key: bytes, secret: bytes, *, is_session: bool) -> bool:
    is_key = 0 < len(key) <= _LONGEST_SESSION_ID if is_session else len(key) == _RANDOM_SIZE
    return is_key and len(secret) in _SIZES[label]
