"""One TLS connection: records of both directions → application data, with the secrets of a key log.

The hellos are sent in plaintext. They say which secrets of the key log are those of the connection, and how
records are protected. A key log has secrets for each connection, also if it resumes a session, except that a
JVM agent logs those of TLS 1.2 once, by session ID. Therefore tickets are read, by which a session is resumed
under another ID. Nothing else of the handshake is read. Early data (RFC 8446 section 2.3), which no Kafka
client sends, is not read either.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from decoders.tls.cipher_suites import CipherSuite, cipher_suite
from decoders.tls.handshake import (
    TLS_1_3,
    ClientHello,
    HandshakeError,
    HandshakeType,
    Message,
    Messages,
    ServerHello,
    read_client_hello,
    read_new_session_ticket,
    read_server_hello,
)
from decoders.tls.key_log import MASTER_SECRET, KeyLog
from decoders.tls.key_schedule import session_keys
from decoders.tls.outcome import Outcome, UnreadableError
from decoders.tls.protection import Opened
from decoders.tls.receiver import Receiver
from decoders.tls.records import ContentType, TlsRecord


class Side(enum.IntEnum):
    """Who has sent a record."""

    CLIENT = 0
    SERVER = 1


_TRAFFIC_SECRETS: Final = {
    Side.CLIENT: "CLIENT_TRAFFIC_SECRET_0",
    Side.SERVER: "SERVER_TRAFFIC_SECRET_0",
}


class Content(NamedTuple):
    """Application data that a record has, which begins in its fragment at `begin`.

    `is_read` is false if the record may hold application data that cannot be decrypted. `closes` is true of
    the alert close_notify, behind which its side sends nothing more (RFC 8446 section 6.1).
    """

    data: bytes
    begin: int
    is_read: bool
    closes: bool = False


NOTHING: Final = Content(b"", 0, is_read=True)
"""The content of a record of the handshake, or of an alert."""
_CLOSING: Final = Content(b"", 0, is_read=True, closes=True)
_CLOSE_NOTIFY: Final = 0
"""The description of the alert, which is its second byte."""
_UNREAD: Final = Content(b"", 0, is_read=False)


class Session:
    """Follows one connection from its first record. Holds its secrets, until `close`."""

    def __init__(self, key_log: KeyLog) -> None:
        self._key_log = key_log
        self._searched: int | None = None
        """The version of the key log that had no secrets of the connection."""
        self._messages = {side: Messages() for side in Side}
        """Of the sides of which more is to be read."""
        self._client_hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        self._suite: CipherSuite | None = None
        self._changed: set[Side] = set()
        """The sides whose ChangeCipherSpec was read: their records are protected from there in TLS 1.2."""
        self._receivers: dict[Side, Receiver] | None = None

    @property
    def is_read(self) -> bool:
        """Whether a record was decrypted."""
        return self._receivers is not None and any(each.has_begun for each in self._receivers.values())

    @property
    def has_hellos(self) -> bool:
        """Whether it is known how the records are protected."""
        return self._suite is not None

    @property
    def held(self) -> int:
        """Bytes of handshake messages that are not complete so far."""
        return sum(messages.held for messages in self._messages.values())

    @property
    def receivers(self) -> dict[Side, Receiver] | None:
        """What reads the protected records of each side, None without secrets."""
        return self._receivers

    def awaits_key(self, side: Side, record: TlsRecord) -> bool:
        """Whether a record is protected, and the key log has no secret that opens it so far."""
        return self._is_protected(side, record) and not self.has_keys()

    def has_keys(self) -> bool:
        """Whether the key log has, or had, the secrets of both directions."""
        if self._receivers is None and self._searched != self._key_log.version:
            self._searched = self._key_log.version
            self._receivers = self._find_keys()
        return self._receivers is not None

    def read(self, side: Side, record: TlsRecord) -> Content:
        """Return the content of the next record of a side. Raises UnreadableError."""
        if self._is_protected(side, record):
            return self._read_protected(side, record)
        if record.content_type == ContentType.CHANGE_CIPHER_SPEC:
            self._changed.add(side)
            if self._suite is not None:
                self._messages.pop(side, None)
        elif self._suite is not None and self._suite.is_tls_1_3:
            # Behind the hellos all else is encrypted, and such records say APPLICATION_DATA.
            raise UnreadableError(Outcome.LOST_RECORD_NUMBERS)
        elif record.content_type == ContentType.HANDSHAKE:
            self._read_handshake(side, record.fragment)
        elif record.content_type == ContentType.APPLICATION_DATA:
            if not self._has_early_data(side):
                raise UnreadableError(Outcome.NO_HANDSHAKE)
            return _UNREAD
        return NOTHING

    def resume(self, side: Side, record: TlsRecord, max_lost: int) -> Content | None:
        """Return the content of the first record after lost ones, None if this is not one.

        `max_lost` is how many records may have been lost. Raises UnreadableError.
        """
        assert self._receivers is not None
        opened = self._receivers[side].resume(record, max_lost)
        if opened is None:
            return None
        self._changed.add(side)
        return _content_of(opened)

    def close(self) -> None:
        """Drop the secrets: the connection has ended, or is not read any more."""
        self._receivers = None
        if self._client_hello is not None:
            self._key_log.forget(self._client_hello.random)

    def _is_protected(self, side: Side, record: TlsRecord) -> bool:
        if self._suite is None:
            return False
        if self._suite.is_tls_1_3:
            return record.content_type == ContentType.APPLICATION_DATA
        return side in self._changed

    def _has_early_data(self, side: Side) -> bool:
        hello = self._client_hello
        return side is Side.CLIENT and hello is not None and hello.offers_early_data

    def _read_protected(self, side: Side, record: TlsRecord) -> Content:
        assert self._receivers is not None
        opened = self._receivers[side].read(record)
        if opened is None:
            return _UNREAD if self._has_early_data(side) else NOTHING
        return _content_of(opened)

    def _read_handshake(self, side: Side, fragment: bytes) -> None:
        messages = self._messages.get(side)
        if messages is None:
            return
        try:
            for message in messages.push(fragment):
                if side is Side.CLIENT and message.type == HandshakeType.CLIENT_HELLO:
                    self._client_hello = read_client_hello(message.body)
                    # A second one, after a HelloRetryRequest, has the same random.
                    del self._messages[side]
                    break
                if side is Side.SERVER:
                    self._read_of_server(message)
        except HandshakeError:
            if self._suite is None:
                raise UnreadableError(Outcome.NO_HANDSHAKE) from None
            # A certificate that is too long: a ticket behind it is not seen.
            self._messages.pop(side, None)

    def _read_of_server(self, message: Message) -> None:
        if self._suite is None and message.type == HandshakeType.SERVER_HELLO:
            self._choose(read_server_hello(message.body))
        elif self._suite is not None and message.type == HandshakeType.NEW_SESSION_TICKET:
            ticket, session_id = read_new_session_ticket(message.body), self._session_id()
            if ticket and session_id:
                self._key_log.remember_ticket(ticket, session_id)

    def _choose(self, hello: ServerHello) -> None:
        if hello.is_retry:
            return
        self._server_hello = hello
        self._suite = cipher_suite(hello.version, hello.cipher_suite)
        if self._client_hello is None:
            raise UnreadableError(Outcome.NO_HANDSHAKE)
        if self._suite is None:
            raise UnreadableError(Outcome.UNSUPPORTED_SUITE)
        if self._suite.is_tls_1_3:
            self._messages.clear()

    def _session_id(self) -> bytes:
        """Return the ID by which a key log knows the session, empty if it knows none so.

        A server that resumes the session of a ticket repeats the ID that the client has chosen (RFC 5077
        section 3.4).
        """
        client, server = self._client_hello, self._server_hello
        assert client is not None
        assert server is not None
        if server.version == TLS_1_3:
            return b""
        is_resumed = client.ticket and client.session_id == server.session_id
        known = self._key_log.session_of(client.ticket) if is_resumed else None
        return server.session_id if known is None else known

    def _find_keys(self) -> dict[Side, Receiver] | None:
        suite, client, server = self._suite, self._client_hello, self._server_hello
        if suite is None or client is None or server is None:
            return None
        secrets = self._key_log.secrets(client.random, self._session_id())
        if suite.is_tls_1_3:
            if not all(label in secrets for label in _TRAFFIC_SECRETS.values()):
                return None
            return {
                side: Receiver.of_secret(suite, secrets[label]) for side, label in _TRAFFIC_SECRETS.items()
            }
        if MASTER_SECRET not in secrets:
            return None
        keys = session_keys(suite, secrets[MASTER_SECRET], client.random, server.random)
        return {side: Receiver(suite, of_side) for side, of_side in zip(Side, keys, strict=True)}


def _content_of(opened: Opened) -> Content:
    """Return the content of a record that was decrypted."""
    if opened.content_type == ContentType.APPLICATION_DATA:
        return Content(opened.data, opened.begin, is_read=True)
    is_close_notify = opened.content_type == ContentType.ALERT and opened.data[1:] == bytes([_CLOSE_NOTIFY])
    return _CLOSING if is_close_notify else NOTHING
