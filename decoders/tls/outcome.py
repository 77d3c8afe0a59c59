"""What becomes of a TLS connection: whether it is read, or why not."""

from __future__ import annotations

import enum


class Outcome(enum.StrEnum):
    """What became of a TLS connection. The values are part of metrics."""

    READ = "read"
    """Its keys are known, and the first of its records was decrypted."""
    NO_KEY = "no_key"
    """The key log had no secrets of it in time."""
    UNSUPPORTED_SUITE = "unsupported_suite"
    """Its version or its cipher suite cannot be read: CBC, TLS 1.0 or 1.1."""
    LOST_RECORD_NUMBERS = "lost_record_numbers"
    """A record does not decrypt: bytes were lost or changed. What precedes it may have been read."""
    NO_HANDSHAKE = "no_handshake"
    """The hello of client or server was not captured, or it cannot be parsed."""


class UnreadableError(Exception):
    """A connection cannot be read, or from here on not any more."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome
