"""Handshake messages: hellos, KeyUpdate, NewSessionTicket of TLS 1.2, and the client's certificate.

Format: RFC 8446 section 4 and RFC 5246 section 7.4. A message is a type, a length of three bytes and a body.
Several messages may share a record, and a message may continue in the next record.
"""

from __future__ import annotations

import enum
import hashlib
import re
import warnings
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography.x509 import NameAttribute

MAX_MESSAGE: Final = 1 << 16
"""Bytes of the longest message that is assembled. Longer ones are chains of certificates."""
RANDOM_SIZE: Final = 32
TLS_1_2: Final = 0x0303
TLS_1_3: Final = 0x0304
_RETRY: Final = hashlib.sha256(b"HelloRetryRequest").digest()
"""The random of a ServerHello that is a HelloRetryRequest (RFC 8446 section 4.1.3)."""
_HEADER_SIZE = 4
_ESCAPED: Final = re.compile(r"[,=+<>#;\"\\]|\A +| +\Z")
"""Java writes a backslash before each of these characters."""


class HandshakeType(enum.IntEnum):
    """The messages that are read."""

    CLIENT_HELLO = 1
    SERVER_HELLO = 2
    NEW_SESSION_TICKET = 4
    CERTIFICATE = 11
    FINISHED = 20
    KEY_UPDATE = 24


class Extension(enum.IntEnum):
    """The extensions that are read."""

    SESSION_TICKET = 35
    EARLY_DATA = 42
    SUPPORTED_VERSIONS = 43


class HandshakeError(Exception):
    """A handshake message that cannot be read."""


class HandshakeMessage(NamedTuple):
    """One message. `type` is most often a `HandshakeType`, `body` what follows the header."""

    type: int
    body: bytes


class ClientHello(NamedTuple):
    """What a client proposes. `ticket` names the session of TLS 1.2 that it resumes, or is empty."""

    random: bytes
    session_id: bytes
    ticket: bytes
    offers_early_data: bool


class ServerHello(NamedTuple):
    """What the server has chosen; nothing, if `is_retry` asks for another ClientHello."""

    random: bytes
    session_id: bytes
    version: int
    cipher_suite: int
    is_retry: bool


class HandshakeMessages:
    """Assembles the handshake messages of one direction from the fragments of handshake records."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def held(self) -> int:
        """Bytes of the incomplete message."""
        return len(self._buffer)

    def push(self, fragment: bytes) -> list[HandshakeMessage]:
        """Return the messages that a fragment completes. Raises HandshakeError."""
        self._buffer += fragment
        found = []
        while len(self._buffer) >= _HEADER_SIZE:
            end = _HEADER_SIZE + int.from_bytes(self._buffer[1:_HEADER_SIZE])
            if end > MAX_MESSAGE:
                raise HandshakeError("a message is too long")
            if len(self._buffer) < end:
                break
            found.append(HandshakeMessage(self._buffer[0], bytes(self._buffer[_HEADER_SIZE:end])))
            del self._buffer[:end]
        return found


def read_client_hello(body: bytes) -> ClientHello:
    """Read a ClientHello. Raises HandshakeError."""
    fields = _Fields(body)
    fields.take(2)
    random, session_id = fields.take(RANDOM_SIZE), fields.vector(1)
    fields.vector(2)  # cipher suites
    fields.vector(1)  # compression methods
    extensions = fields.extensions()
    ticket = extensions.get(Extension.SESSION_TICKET, b"")
    return ClientHello(random, session_id, ticket, Extension.EARLY_DATA in extensions)


def read_server_hello(body: bytes) -> ServerHello:
    """Read a ServerHello. Raises HandshakeError."""
    fields = _Fields(body)
    version = fields.number(2)
    random, session_id = fields.take(RANDOM_SIZE), fields.vector(1)
    suite = fields.number(2)
    fields.take(1)  # compression method
    chosen = fields.extensions().get(Extension.SUPPORTED_VERSIONS)
    if chosen is not None:
        version = _Fields(chosen).number(2)
    return ServerHello(random, session_id, version, suite, random == _RETRY)


def read_new_session_ticket(body: bytes) -> bytes:
    """Return the ticket of a NewSessionTicket of TLS 1.2 (RFC 5077 section 3.3). Raises HandshakeError."""
    fields = _Fields(body)
    fields.take(4)  # lifetime
    return fields.vector(2)


def read_subject(body: bytes, *, has_context: bool) -> str:
    """Return the subject of the sender's certificate as Java writes it (RFC 2253), empty if it has none.

    The message of TLS 1.3 `has_context`. Raises HandshakeError for one that cannot be read.
    """
    # Needed only where principals are kept, and importing it takes 50 ms.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate  # noqa: PLC0415

    fields = _Fields(body)
    if has_context:
        fields.vector(1)  # the context of the request
    chain = _Fields(fields.vector(3))
    if chain.is_at_end:
        return ""
    certificate = chain.vector(3)
    try:
        # A certificate that breaks RFC 5280 may have a readable name, and gives a warning.
        with warnings.catch_warnings(action="ignore"):
            parts = reversed(load_der_x509_certificate(certificate).subject.rdns)
            return ",".join("+".join(map(_written, part)) for part in parts)
    except (ValueError, TypeError, InvalidVersion, UnsupportedAlgorithm) as error:
        raise HandshakeError("a certificate that cannot be read") from error


def _written(attribute: NameAttribute[str | bytes]) -> str:
    """Write one attribute of a name: type and value, in hexadecimal if the type has no short name."""
    from cryptography.x509 import Name  # noqa: PLC0415

    kind = attribute.rfc4514_attribute_name
    if isinstance(attribute.value, str) and not kind[0].isdigit():
        text = _ESCAPED.sub(lambda found: "".join(f"\\{char}" for char in found[0]), attribute.value)
        return f"{kind}={text}"
    # The name is a sequence of one set of one sequence of type and value.
    pair = Name([attribute]).public_bytes()
    for _ in range(3):
        pair = _Fields(pair).element()
    kind_and_length = 2
    return f"{kind}=#{pair[kind_and_length + pair[1] :].hex()}"


class _Fields:
    """Reads the fields of a message in their order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise HandshakeError("a message ends inside a field")
        return self._data[begin : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, length_size: int) -> bytes:
        """Take a vector that follows its length."""
        return self.take(self.number(length_size))

    def element(self) -> bytes:
        """Take the contents of an element of DER."""
        self.take(1)
        size = self.number(1)
        return self.take(self.number(size - 128) if size > 128 else size)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._data)

    def extensions(self) -> dict[int, bytes]:
        """Take the extensions; a message of TLS 1.2 may have none."""
        if self.is_at_end:
            return {}
        block, found = _Fields(self.vector(2)), {}
        while not block.is_at_end:
            kind = block.number(2)
            found[kind] = block.vector(2)
        return found
