"""One direction of a TLS connection, decrypted: record numbers, key updates, and how lost bytes are passed.

`session` says in a table when a direction has a receiver, and what each state does with its records.
"""

from __future__ import annotations

from typing import Final

from decoders.tls.handshake import HandshakeError, HandshakeMessages, HandshakeType
from decoders.tls.outcome import TlsOutcome, UnreadableError
from decoders.tls.protection import (
    CipherSuite,
    Plaintext,
    Protection,
    TrafficKeys,
    next_secret,
    traffic_keys,
)
from decoders.tls.records import ContentType, TlsRecord

MAX_LOST_RECORDS: Final = 1024
"""Record numbers that are tried for the first record after lost bytes."""
MAX_ATTEMPTS: Final = 4 * MAX_LOST_RECORDS
"""Decryptions that may fail after lost bytes before the connection counts as unreadable."""
MAX_HANDSHAKE_RECORDS: Final = 64
"""Records of the handshake that may precede the first record of a TLS 1.3 direction that can be read."""
_MAX_UNSEEN_RECORDS = 64
"""Record numbers that are tried with the next keys, in case a KeyUpdate was lost."""


class Receiver:
    """One direction with the keys that protect its application data: the states KEYED, READING and SEEKING.

    TLS 1.3 protects the rest of its handshake with other keys: those records, all before the first one that
    opens, are skipped.
    """

    def __init__(self, suite: CipherSuite, keys: TrafficKeys, secret: bytes | None = None) -> None:
        """Begin at record 0. `secret` is the traffic secret of TLS 1.3, which key updates continue from."""
        self._suite = suite
        self._secret = secret
        self.protection = Protection(suite, keys)
        """The keys of the next record."""
        self.number = 0
        """The number of the next record."""
        self._messages = HandshakeMessages()
        self._skipped = 0
        self._attempts = 0
        self.has_begun = False
        """Whether a record was decrypted."""

    @classmethod
    def of_secret(cls, suite: CipherSuite, secret: bytes) -> Receiver:
        """Return the receiver of a TLS 1.3 direction."""
        return cls(suite, traffic_keys(suite, secret), secret)

    def read(self, record: TlsRecord) -> Plaintext | None:
        """Return the content of the next record, None if it is of the handshake. Raises UnreadableError."""
        opened = self.protection.open(record, self.number)
        if opened is None:
            self._skipped += 1
            if self._secret is None or self.has_begun or self._skipped > MAX_HANDSHAKE_RECORDS:
                raise UnreadableError(TlsOutcome.LOST_RECORD_NUMBERS)
            return None
        self.number += 1
        self._follow(opened)
        return opened

    def resume(self, record: TlsRecord, max_lost: int) -> Plaintext | None:
        """Return the content of the first record after lost ones, None if the candidate is no record.

        `max_lost` is how many records may have been lost. Raises UnreadableError after too many attempts.
        """
        numbers = range(self.number, self.number + min(max_lost, MAX_LOST_RECORDS) + 1)
        opened = self._open(record, numbers)
        if opened is None and self.has_begun and self._secret is not None:
            opened = self._resume_updated(record, max_lost)
        if opened is not None:
            self._attempts = 0
            self._messages = HandshakeMessages()
            self._follow(opened)
        return opened

    def _resume_updated(self, record: TlsRecord, max_lost: int) -> Plaintext | None:
        """Try the next keys: a KeyUpdate may be among the lost records."""
        before = self._secret, self.protection, self.number
        self._update()
        opened = self._open(record, range(min(max_lost, _MAX_UNSEEN_RECORDS)))
        if opened is None:
            self._secret, self.protection, self.number = before
        return opened

    def _open(self, record: TlsRecord, numbers: range) -> Plaintext | None:
        for number in numbers:
            opened = self.protection.open(record, number)
            if opened is not None:
                self.number = number + 1
                return opened
            self._attempts += 1
            if self._attempts > MAX_ATTEMPTS:
                raise UnreadableError(TlsOutcome.LOST_RECORD_NUMBERS)
        return None

    def _follow(self, opened: Plaintext) -> None:
        """Change the keys behind a KeyUpdate. Raises UnreadableError if a new handshake begins."""
        self.has_begun = True
        if opened.content_type == ContentType.CHANGE_CIPHER_SPEC:
            # A renegotiation of TLS 1.2, whose client random is encrypted. Kafka never renegotiates.
            raise UnreadableError(TlsOutcome.LOST_RECORD_NUMBERS)
        if opened.content_type != ContentType.HANDSHAKE or self._secret is None:
            return
        try:
            messages = self._messages.push(opened.data)
        except HandshakeError:
            raise UnreadableError(TlsOutcome.LOST_RECORD_NUMBERS) from None
        if any(message.type == HandshakeType.KEY_UPDATE for message in messages):
            self._update()

    def _update(self) -> None:
        assert self._secret is not None
        self._secret = next_secret(self._suite, self._secret)
        self.protection = Protection(self._suite, traffic_keys(self._suite, self._secret))
        self.number = 0
