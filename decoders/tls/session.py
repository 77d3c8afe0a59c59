"""One TLS connection: records of both directions → application data, with the secrets of a key log.

The hellos are plaintext: they select the secrets in the key log and the cipher suite. Each direction then
goes through these states:

    state      its records                                         next state
    ---------  --------------------------------------------------  -------------------------------------------
    PLAINTEXT  hellos, tickets and ChangeCipherSpec are read, all  KEYLESS at its first protected record: in
               other handshake messages are skipped                TLS 1.3 the first APPLICATION_DATA behind
                                                                   the ServerHello, in TLS 1.2 the first
                                                                   behind its ChangeCipherSpec
    KEYLESS    `awaits_key`: the caller holds them                 KEYED when the key log has the secrets of
                                                                   both directions (`has_keys`)
    KEYED      TLS 1.3: those that the keys do not open are of     READING at the first record that opens
               the handshake, and are skipped                      (`has_begun`)
    READING    `read`: each opens with the next number; behind a   SEEKING when bytes are lost
               KeyUpdate the keys are new and numbers begin at 0
    SEEKING    `resume`: a candidate is tried with the number of   READING at the first candidate that opens
               each record that may have been lost

Lost bytes lead to SEEKING from every state behind the hellos. The caller notices them and keeps this state
(`RecordReader.is_seeking`). UnreadableError ends the session in any state; its `TlsOutcome` says why.

A key log has secrets for each connection, even if it resumes a session, with one exception: a JVM agent logs
those of TLS 1.2 once per session ID. A client that resumes such a session by a ticket sends another ID, so
the session remembers which ticket belongs to which ID. Early data (RFC 8446 section 2.3), which no Kafka
client sends, is not decrypted.

A session that `keeps_subject` also reads the client's certificate: in TLS 1.2 it precedes the client's
ChangeCipherSpec, in TLS 1.3 a secret of its own protects it, without which it is not seen.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from decoders.tls.handshake import (
    TLS_1_3,
    ClientHello,
    HandshakeError,
    HandshakeMessage,
    HandshakeMessages,
    HandshakeType,
    ServerHello,
    read_client_hello,
    read_new_session_ticket,
    read_server_hello,
    read_subject,
)
from decoders.tls.key_log import CLIENT_HANDSHAKE, MASTER_SECRET, KeyLog
from decoders.tls.outcome import TlsOutcome, UnreadableError
from decoders.tls.protection import CipherSuite, Plaintext, cipher_suite, session_keys
from decoders.tls.receiver import Receiver
from decoders.tls.records import ContentType, TlsRecord


class Side(enum.IntEnum):
    """The sender of a record."""

    CLIENT = 0
    SERVER = 1


_TRAFFIC_SECRETS: Final = {
    Side.CLIENT: "CLIENT_TRAFFIC_SECRET_0",
    Side.SERVER: "SERVER_TRAFFIC_SECRET_0",
}


class Content(NamedTuple):
    """The application data of a record. In the record's fragment it begins at `begin`.

    `is_read` is false if the record may hold application data that cannot be decrypted. `closes` marks the
    alert close_notify, the last record of its side (RFC 8446 section 6.1).
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
    """Follows one connection from its first record. Holds its secrets until `close`."""

    def __init__(self, key_log: KeyLog, *, keeps_subject: bool = False) -> None:
        self.subject = ""
        """The subject of the client's certificate, once it was shown and if it is kept."""
        self._keeps_subject = keeps_subject
        self._hidden: Receiver | None = None
        """Opens the client's records of the handshake in TLS 1.3, as long as its certificate is awaited."""
        self._key_log = key_log
        self._searched: int | None = None
        """The version of the key log that had no secrets of the connection."""
        self._messages = {side: HandshakeMessages() for side in Side}
        """By side; a side of which no further message is needed is removed."""
        self._client_hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        self._suite: CipherSuite | None = None
        self._changed: set[Side] = set()
        """The sides whose ChangeCipherSpec was read: in TLS 1.2 their records are protected from there on."""
        self.receivers: dict[Side, Receiver] | None = None
        """By side; None as long as the secrets are not known."""

    @property
    def is_read(self) -> bool:
        """Whether a record was decrypted."""
        return self.receivers is not None and any(each.has_begun for each in self.receivers.values())

    @property
    def has_hellos(self) -> bool:
        """Whether the cipher suite is known."""
        return self._suite is not None

    @property
    def held(self) -> int:
        """Bytes of incomplete handshake messages."""
        return sum(messages.held for messages in self._messages.values())

    def awaits_key(self, side: Side, record: TlsRecord) -> bool:
        """Whether a record is protected, and the key log has no secrets for it."""
        return self._is_protected(side, record) and not self.has_keys()

    def has_keys(self) -> bool:
        """Whether the key log has, or had, the secrets of both directions."""
        if self.receivers is None and self._searched != self._key_log.version:
            self._searched = self._key_log.version
            self.receivers = self._find_keys()
        return self.receivers is not None

    def read(self, side: Side, record: TlsRecord) -> Content:
        """Return the content of the next record of a side. Raises UnreadableError."""
        if self._is_protected(side, record):
            return self._read_protected(side, record)
        if record.content_type == ContentType.CHANGE_CIPHER_SPEC:
            self._changed.add(side)
            if self._suite is not None:
                self._messages.pop(side, None)
        elif self._suite is not None and self._suite.is_tls_1_3:
            # Behind the hellos all records are encrypted, and say APPLICATION_DATA.
            raise UnreadableError(TlsOutcome.LOST_RECORD_NUMBERS)
        elif record.content_type == ContentType.HANDSHAKE:
            self._read_handshake(side, record.fragment)
        elif record.content_type == ContentType.APPLICATION_DATA:
            if not self._has_early_data(side):
                raise UnreadableError(TlsOutcome.NO_HANDSHAKE)
            return _UNREAD
        return NOTHING

    def resume(self, side: Side, record: TlsRecord, max_lost: int) -> Content | None:
        """Return the content of the first record after lost ones, None if the candidate is no record.

        `max_lost` is how many records may have been lost. Raises UnreadableError.
        """
        assert self.receivers is not None
        opened = self.receivers[side].resume(record, max_lost)
        if opened is None:
            return None
        self._changed.add(side)
        return _content_of(opened)

    def close(self) -> None:
        """Drop the secrets: no further record is read."""
        self.receivers = self._hidden = None
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
        assert self.receivers is not None
        opened = self.receivers[side].read(record)
        if opened is None and side is Side.CLIENT:
            self._read_hidden(record)
        if opened is None:
            return _UNREAD if self._has_early_data(side) else NOTHING
        return _content_of(opened)

    def _read_hidden(self, record: TlsRecord) -> None:
        """Look for the client's certificate in a record of the handshake in TLS 1.3."""
        hidden = self._hidden
        opened = hidden.protection.open(record, hidden.number) if hidden else None
        if hidden is None or opened is None or opened.content_type != ContentType.HANDSHAKE:
            self._hidden = None
            return
        hidden.number += 1
        try:
            for message in self._messages.setdefault(Side.CLIENT, HandshakeMessages()).push(opened.data):
                self._read_certificate(message)
        except HandshakeError:
            self._hidden = None
        if self._hidden is None:
            self._messages.pop(Side.CLIENT, None)

    def _read_certificate(self, message: HandshakeMessage) -> None:
        """Read the client's certificate, and stop looking for it behind the last message that may hold it."""
        assert self._suite is not None
        if message.type == HandshakeType.CERTIFICATE:
            self.subject = read_subject(message.body, has_context=self._suite.is_tls_1_3)
        if message.type in (HandshakeType.CERTIFICATE, HandshakeType.FINISHED):
            self._hidden = None

    def _read_handshake(self, side: Side, fragment: bytes) -> None:
        messages = self._messages.get(side)
        if messages is None:
            return
        try:
            for message in messages.push(fragment):
                if side is Side.SERVER:
                    self._read_of_server(message)
                elif self._client_hello is None and message.type == HandshakeType.CLIENT_HELLO:
                    # A second one, after a HelloRetryRequest, has the same random.
                    self._client_hello = read_client_hello(message.body)
                elif self._suite is not None:
                    self._read_certificate(message)
                if side is Side.CLIENT and not self._keeps_subject and self._client_hello is not None:
                    del self._messages[side]
                    break
        except HandshakeError:
            if self._suite is None:
                raise UnreadableError(TlsOutcome.NO_HANDSHAKE) from None
            # A certificate that is too long, or no certificate. A ticket behind it is missed.
            self._messages.pop(side, None)

    def _read_of_server(self, message: HandshakeMessage) -> None:
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
            raise UnreadableError(TlsOutcome.NO_HANDSHAKE)
        if self._suite is None:
            raise UnreadableError(TlsOutcome.UNSUPPORTED_SUITE)
        if self._suite.is_tls_1_3:
            self._messages.clear()

    def _session_id(self) -> bytes:
        """Return the session ID to look up in a key log, empty for TLS 1.3: nothing logs that by session ID.

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
            if self._keeps_subject and CLIENT_HANDSHAKE in secrets:
                self._hidden = Receiver.of_secret(suite, secrets[CLIENT_HANDSHAKE])
            return {
                side: Receiver.of_secret(suite, secrets[label]) for side, label in _TRAFFIC_SECRETS.items()
            }
        if MASTER_SECRET not in secrets:
            return None
        keys = session_keys(suite, secrets[MASTER_SECRET], client.random, server.random)
        return {side: Receiver(suite, of_side) for side, of_side in zip(Side, keys, strict=True)}


def _content_of(opened: Plaintext) -> Content:
    """Return the application data of a decrypted record."""
    if opened.content_type == ContentType.APPLICATION_DATA:
        return Content(opened.data, opened.begin, is_read=True)
    is_close_notify = opened.content_type == ContentType.ALERT and opened.data[1:] == bytes([_CLOSE_NOTIFY])
    return _CLOSING if is_close_notify else NOTHING
