"""Whether a TLS connection is read, or why not."""

from __future__ import annotations

import enum


class TlsOutcome(enum.StrEnum):
    """Whether a TLS connection is read, or why not. The values are part of metrics."""

    READ = "read"
    """The first of its protected records was decrypted."""
    NO_KEY = "no_key"
    """The key log did not have its secrets in time."""
    UNSUPPORTED_SUITE = "unsupported_suite"
    """Its version or its cipher suite cannot be read: CBC, TLS 1.0 or 1.1."""
    LOST_RECORD_NUMBERS = "lost_record_numbers"
    """A record does not decrypt, because bytes were lost or changed. Earlier records may have been read."""
    NO_HANDSHAKE = "no_handshake"
    """A hello was not captured, or cannot be parsed."""


class UnreadableError(Exception):
    """The connection cannot be read from here on."""

    def __init__(self, outcome: TlsOutcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome
