"""Replaces identities by pseudonyms before they become facts, so that no later stage holds a plain one.

Statements, connections, rules, state, findings and reports then have pseudonyms only, and no rule can forget
to hide an ID. Verdicts stay the same, since a pseudonym keeps what rules read of an identity:

- Equal identities have equal pseudonyms, also in different forms: a member ID that equals the client instance
  ID still does.
- A UUID becomes a UUID in the same form, with the same version bits; unusual ways to write it, such as hex in
  mixed case, become one. Reserved UUIDs and blank texts identify nobody and stay.
- Any other text stays as long as it is, if it has more than SHORTEST characters, and becomes no UUID.

A placement in Kubernetes is left out: its parts would need pseudonyms of their own.

A pseudonym is a keyed hash (BLAKE2b). With the key an identity can be recognised; nobody can compute an
identity from its pseudonym.

A feeder that has the key replaces the address of a client by another one, `Pseudonyms.client`, in each
record. Both addresses get the same pseudonym here.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from decoders.frame.record import Kind, host_of
from decoders.wire.segment import SocketAddress
from expectations.conversation.bodies import (
    ClassicGroup,
    Heartbeat,
    HeartbeatResponse,
    MemberRequest,
    Placement,
    Principal,
    TelemetryIdentity,
)
from expectations.conversation.observation import ConnectionKey, Occurrence, Statement, Window
from expectations.conversation.texts import (
    LONGEST_TEXT,
    RESERVED_UUIDS,
    identifier_bytes,
    identifier_text,
    is_blank,
    is_kafkas_form,
    is_shortened,
    utf16_units,
)

IDENTITIES: Final[Mapping[type[msgspec.Struct], tuple[str, ...]]] = {
    Statement: ("client_id", "client_instance_id", "draft_instance_id"),
    Heartbeat: ("member_id", "group_id"),
    HeartbeatResponse: ("member_id",),
    MemberRequest: ("group_id", "member_id"),
    TelemetryIdentity: ("instance_id",),
    ClassicGroup: ("group_id",),
    Principal: ("name",),
}
"""The fields of statements and their bodies that hold identities: IDs as text or 16 bytes."""
SHORTEST: Final = 13
"""Characters that the pseudonym of a text has at least."""
SHORTEST_KEY: Final = 16
"""Bytes that a key must have at least."""
_HOST_BYTES, _TEXT_BYTES = 6, 16
_NETWORK: Final = b"\xfdkipwatch\0"
"""Addresses that begin so are pseudonyms: a unique local network (RFC 4193), with the hash behind it."""
_NETWORK_TEXT: Final = "[fd6b:6970:7761:7463:6800:"
_NO_UUID: Final = "~"
"""How pseudonyms of texts begin. No form of a UUID has this character."""
_EVIDENCE_BYTES: Final = {Kind.REQUEST: 8, Kind.RESPONSE: 4, Kind.NOT_KAFKA: 4, Kind.INVALID_SIZE: 4}
"""Bytes of a frame that precede any identity: API key, version and correlation ID, or bytes of no header."""
_Named = TypeVar("_Named", bound=msgspec.Struct)


class Pseudonyms:
    """Replaces identities by keyed hashes. Equal keys give equal pseudonyms, in any process."""

    def __init__(self, key: bytes) -> None:
        """The key has SHORTEST_KEY bytes or more; a ValueError is raised for a shorter one."""
        if len(key) < SHORTEST_KEY:
            raise ValueError(f"a key needs {SHORTEST_KEY} bytes or more")
        self._key = hashlib.blake2b(key, digest_size=hashlib.blake2b.MAX_KEY_SIZE).digest()

    def windows(self, windows: Sequence[Window]) -> list[Window]:
        """Replace all identities of a batch, whose windows share one table of statements."""
        statements: dict[int, Statement] = {}
        for window in windows:
            for number in window.numbers:
                if number not in statements:
                    statements[number] = self.statement(window.statements[number])
        return [self._window(window, statements) for window in windows]

    def statement(self, statement: Statement) -> Statement:
        """Replace the identities of a statement and its body."""
        body = statement.body
        if isinstance(body, Placement):
            statement = msgspec.structs.replace(statement, body=None)
        elif body is not None and type(body) in IDENTITIES:
            statement = msgspec.structs.replace(statement, body=self._replaced(body))
        return self._replaced(statement)

    def address(self, address: str) -> str:
        """Replace the host of an address; the port stays."""
        host, _, port = address.rpartition(":")
        return f"{self.host(host)}:{port}"

    def host(self, host: str) -> str:
        """Replace a host. One that a feeder has replaced gets the same name as the plain one."""
        replaced = ipaddress.ip_address(host.strip("[]")).packed if host.startswith(_NETWORK_TEXT) else b""
        return f"h-{(replaced[len(_NETWORK) :] or self._hash(host.encode(), _HOST_BYTES)).hex()}"

    def client(self, client: SocketAddress) -> SocketAddress:
        """Replace the IP address of a client by another one, which `host` knows; the port stays."""
        host = host_of(client.endpoint)
        return SocketAddress(_NETWORK + self._hash(host.encode(), _HOST_BYTES), client.port)

    def text(self, text: str) -> str:
        """Replace an ID that is a text; one that is a UUID becomes a UUID in the same form."""
        if is_blank(text):
            return text
        identifier = identifier_bytes(text)
        if identifier is not None:
            return text if identifier in RESERVED_UUIDS else _in_form_of(text, self.identifier(identifier))
        hashed = self._hash(text.encode("utf-8", "surrogatepass"), _TEXT_BYTES).hex()
        length = max(_length(text), SHORTEST) - len(_NO_UUID)
        return _NO_UUID + (hashed * (length // len(hashed) + 1))[:length]

    def identifier(self, identifier: bytes) -> bytes:
        """Replace the 16 bytes of a UUID, but for the bits of its version and variant."""
        if identifier in RESERVED_UUIDS:
            return identifier
        hashed = bytearray(self._hash(identifier, len(identifier)))
        hashed[6] = hashed[6] & 0x0F | identifier[6] & 0xF0
        hashed[8] = hashed[8] & 0x3F | identifier[8] & 0xC0
        return bytes(hashed)

    def _window(self, window: Window, statements: Mapping[int, Statement]) -> Window:
        occurrences = [
            _without_evidence(occurrence, statements[number].kind)
            for number, occurrence in zip(window.numbers, window.occurrences, strict=True)
        ]
        return Window(self._connection(window.connection), window.numbers, occurrences, statements)

    def _connection(self, key: ConnectionKey) -> ConnectionKey:
        """Replace the client's address, and the ID, which is a hash of that address among others."""
        return msgspec.structs.replace(
            key, id=self._hash(key.id, len(key.id)), client=self.address(key.client)
        )

    def _replaced(self, named: _Named) -> _Named:
        given = {name: getattr(named, name) for name in IDENTITIES[type(named)]}
        return msgspec.structs.replace(
            named,
            **{
                name: self.identifier(value) if isinstance(value, bytes) else self.text(value)
                for name, value in given.items()
                if value is not None
            },
        )

    def _hash(self, plain: bytes, size: int) -> bytes:
        return hashlib.blake2b(plain, digest_size=size, key=self._key).digest()


def _without_evidence(occurrence: Occurrence, kind: Kind) -> Occurrence:
    """Cut the frame's first bytes before any identity."""
    beginning = occurrence.evidence.beginning[: _EVIDENCE_BYTES.get(kind, 0)]
    evidence = msgspec.structs.replace(occurrence.evidence, beginning=beginning)
    return msgspec.structs.replace(occurrence, evidence=evidence)


def _length(text: str) -> int:
    """Return the length in UTF-16, by which brokers limit a member ID. A text stays whole, or shortened."""
    return len(text) if is_shortened(text) else min(utf16_units(text), LONGEST_TEXT)


def _in_form_of(text: str, identifier: bytes) -> str:
    """Write a UUID as another one is written: in Kafka's form, in another base64, or in hex."""
    if is_kafkas_form(text):
        return identifier_text(identifier)
    if len(text.rstrip("=")) == len(identifier_text(identifier)):
        # The padding keeps a text without `+` and `/` from being in Kafka's form.
        return base64.b64encode(identifier).decode()
    digits = iter(identifier.hex().upper() if text.isupper() else identifier.hex())
    return "".join(character if character == "-" else next(digits) for character in text)
