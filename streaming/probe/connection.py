"""A connection to a broker under test: secured, recorded as packets, and limited in time and memory.

What is sent and received becomes plaintext packets of the real addresses, which are judged like any capture.
The packets acknowledge at once what the client has read, so a later request was sent in knowledge of it. If a
broker does not respond in time, or announces a response longer than MOST_READ, the connection ends, and
`Trouble` says why.

TLS and the login are those of the table [kafka] of the configuration, which has librdkafka's names; its
secrets are looked up as for kipwatch's own clients. The probe logs in by PLAIN or SCRAM (RFC 5802), in
Kafka's own requests.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import hmac
import secrets
import ssl
import struct
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from decoders.frame.record import Direction
from decoders.schema.registry import Schemas
from decoders.wire.frame_detector import OtherProtocol, protocol_of_server
from decoders.wire.segment import Packet, SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.probe.client import ConnectionClosedError, InstanceClient, new_instance_id
from streaming.settings.kafka_client import OF_SECURITY, Setting, librdkafka_settings
from streaming.user_error import UserError

CLIENT_ID = "kipwatch-probe"
PATIENCE = 5.0
"""Seconds within which a broker must accept a connection, and send a response whole."""
LINGER = 0.3
"""Seconds to wait for bytes that no request asked for."""
MOST_READ = 1024 * 1024
"""Bytes of the longest response that is read."""
MOST_READ_IN_ALL = 16 * MOST_READ
MOST_REQUESTS = 1_000
"""Requests of one probe. Its duties take some 200 where the broker never closes, and a login three each."""
MOST_SECONDS = 180.0
"""Seconds after which a probe asks nothing more."""

_LENGTH = struct.Struct(">i")
_API = struct.Struct(">hh")
_CHUNK = 64 * 1024


class Trouble(enum.StrEnum):
    """Why a request has no response that was read whole."""

    CLOSED = "the broker closed the connection"
    SILENT = f"no response within {PATIENCE:g} s"
    LONG = f"a response of more than {MOST_READ >> 20} MiB, of which no more is read"
    UNREACHED = "the broker could not be reached"
    LOGIN = "the login failed"
    SPENT = f"a probe ends at {MOST_REQUESTS} requests, {MOST_SECONDS:g} s or {MOST_READ_IN_ALL >> 20} MiB"


class UnansweredError(ConnectionClosedError):
    """A request has no response. The argument is the reason."""


class NotOfferedError(Exception):
    """The broker does not advertise what the play needs."""


class Login(NamedTuple):
    """A user, the password, and the mechanism of SASL."""

    mechanism: str
    user: str
    password: str


class Security(NamedTuple):
    tls: ssl.SSLContext | None = None
    login: Login | None = None


OPEN = Security()


RangesByName = Mapping[str, tuple[int, int]]
"""The advertised versions of each API, lowest and highest, by the API's name."""


@dataclass
class Target:
    """A broker under test, what it lists, how many requests it was sent and how many bytes it sent back."""

    schemas: Schemas
    address: tuple[str, int]
    security: Security = OPEN
    patience: float = PATIENCE
    ranges: RangesByName = field(default_factory=dict)
    requests: int = 0
    received: int = 0
    used_ports: set[int] = field(default_factory=set)
    """Ports of earlier connections: a capture with two from one port may show one connection twice."""
    deadline: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)

    @property
    def port(self) -> int:
        return self.address[1]

    @property
    def is_mute(self) -> bool:
        """Whether the broker let several requests wait and never sent a byte."""
        return not self.received and self.requests > 1

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be asked."""
        used_up = self.requests >= MOST_REQUESTS or self.received >= MOST_READ_IN_ALL
        return used_up or time.monotonic() >= self.deadline

    def connect(self, record: Callable[[list[Packet]], None]) -> ProbingClient:
        """Open a connection. Raises UnansweredError."""
        try:
            return ProbingClient(self, record)
        except OSError as error:
            raise UnansweredError(f"{Trouble.UNREACHED}: {error.strerror or error}") from error


class ProbingClient(InstanceClient):
    """One connection of the probe."""

    def __init__(self, target: Target, record: Callable[[list[Packet]], None]) -> None:
        super().__init__(
            target.schemas,
            target.address,
            CLIENT_ID,
            new_instance_id(),
            "",
            tls=target.security.tls,
            patience=target.patience,
            used_ports=target.used_ports,
        )
        target.used_ports.add(self.port)
        self.target = target
        self.trouble = ""
        """Why a request has no response; "" if each has one."""
        self.may_close = False
        """Whether closing is a proper response to what is asked now."""
        self.was_closed = False
        self.protocol = OtherProtocol.NOISE
        """The other protocol that the server speaks, if it is known."""
        self.asked = "the login"
        """What was asked last."""
        self._record = record
        self._last = 0
        self._synthetic = SyntheticConnection(
            SocketAddress.named(self._socket.getsockname()), SocketAddress.named(self._socket.getpeername())
        )
        self._record(self._synthetic.opened(self._now()))

    def __exit__(self, *error: object) -> None:
        """Close the connection, as a client that has all its responses does."""
        self._record(self._synthetic.finished(self._now(), Direction.TO_BROKER))
        self._socket.close()

    @property
    def server(self) -> str:
        """The IP address that was reached."""
        return str(self._socket.getpeername()[0])

    def log_in(self) -> None:
        """Authenticate, if the target has a login. Raises UnansweredError if the broker refuses."""
        login = self.target.security.login
        if login is not None and not authenticate(self, login):
            raise self._failed(Trouble.LOGIN)

    def need(self, api: str, version: int) -> int:
        """Return a version if the broker advertises it. Raises NotOfferedError."""
        lowest, highest = self.target.ranges.get(api, (0, -1))
        known = self._schemas.api_named(api)
        if known is None or version not in known.versions or not lowest <= version <= highest:
            raise NotOfferedError(f"{api} v{version}")
        return version

    def send(self, frame: bytes) -> None:
        """Send a frame without reading the response. Raises UnansweredError."""
        self.send_bytes(_LENGTH.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that need be no frame. Raises UnansweredError."""
        self.asked = self._name(data[_LENGTH.size :])
        if self.target.is_spent:
            raise self._failed(Trouble.SPENT)
        self.target.requests += 1
        self._record(self._synthetic.sent(self._now(), Direction.TO_BROKER, data))
        try:
            self._socket.settimeout(self.target.patience)
            self._socket.sendall(data)
        except TimeoutError:
            raise self._failed(Trouble.SILENT) from None
        except OSError:
            raise self._failed(Trouble.CLOSED) from None

    def receive(self) -> bytes:
        """Read the next response. Raises UnansweredError."""
        deadline = time.monotonic() + self.target.patience
        prefix = self._receive(_LENGTH.size, deadline)
        (size,) = _LENGTH.unpack(prefix)
        if not 0 <= size <= MOST_READ:
            # The part that was read shows the judge its length.
            self.protocol = protocol_of_server(prefix)
            self._receive(MOST_READ if size > 0 else 1, deadline)
            raise self._failed(Trouble.LONG)
        return self._receive(size, deadline)

    def linger(self) -> None:
        """Wait a moment for bytes that no request asked for."""
        with suppress(ConnectionClosedError):
            self._receive_part(_CHUNK, time.monotonic() + LINGER)
        self.trouble = ""

    def _receive(self, size: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._receive_part(min(size - len(received), _CHUNK), deadline)
            if not part:
                raise self._failed(Trouble.CLOSED)
            received += part
        return bytes(received)

    def _receive_part(self, size: int, deadline: float) -> bytes:
        try:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            part = self._socket.recv(size)
        except TimeoutError:
            raise self._failed(Trouble.SILENT) from None
        except OSError:
            part = b""
        self.target.received += len(part)
        packets = self._synthetic.sent(self._now(), Direction.TO_CLIENT, part)
        self._record(packets or self._synthetic.finished(self._now(), Direction.TO_CLIENT))
        return part

    def _name(self, frame: bytes) -> str:
        if len(frame) < _API.size:
            return "bytes that are no request"
        key, version = _API.unpack_from(frame)
        return f"{self._schemas.api_names.get(key, f'API {key}')} v{version}"

    def _failed(self, trouble: Trouble) -> UnansweredError:
        self.was_closed = trouble == Trouble.CLOSED
        if not (self.may_close and self.was_closed):
            self.trouble = trouble
        return UnansweredError(trouble)

    def _now(self) -> int:
        """Return nanoseconds since the epoch, which never decrease."""
        self._last = max(self._last, time.time_ns())
        return self._last


MECHANISMS: Final = {"PLAIN": "", "SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms of SASL, each with its hash."""
MOST_ROUNDS = 1_000_000
"""Iterations of a SCRAM hash that a broker may demand."""
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_TAKEN: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)


def security_of(address: str, settings: Mapping[str, Setting]) -> Security:
    """Return the security that a table [kafka] asks for. Raises UserError for what the probe lacks."""
    found = {name: str(value) for name, value in librdkafka_settings(address, settings).items()}
    for name in sorted(found.keys() - _TAKEN):
        if OF_SECURITY.match(name):
            raise UserError(f"kafka.{name}: a probe takes only {', '.join(sorted(_TAKEN))}")
    protocol = found.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise UserError(f"kafka.security.protocol {protocol} is not one of {', '.join(_PROTOCOLS)}")
    tls = _tls(found) if protocol.endswith("ssl") else None
    return Security(tls, _login(found) if protocol.startswith("sasl") else None)


def _tls(found: Mapping[str, str]) -> ssl.SSLContext:
    authorities = found.get("ssl.ca.location", "probe")
    try:
        context = ssl.create_default_context(cafile=None if authorities == "probe" else authorities)
        if certificate := found.get("ssl.certificate.location"):
            context.load_cert_chain(
                certificate, found.get("ssl.key.location"), found.get("ssl.key.password", "")
            )
    except OSError as error:
        raise UserError(f"kafka: cannot use the TLS files: {error.strerror or error}") from error
    is_verified = found.get("enable.ssl.certificate.verification", "true").lower() != "false"
    is_named = found.get("ssl.endpoint.identification.algorithm", "https") != "none"
    context.check_hostname = is_verified and is_named
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    return context


def _login(found: Mapping[str, str]) -> Login:
    mechanism = found.get("sasl.mechanism") or found.get("sasl.mechanisms") or ""
    if mechanism not in MECHANISMS:
        raise UserError(f"kafka.sasl.mechanism {mechanism} is not one of {', '.join(MECHANISMS)}")
    return Login(mechanism, found.get("sasl.username", ""), found.get("sasl.password", ""))


def authenticate(client: InstanceClient, login: Login, version: int = 2) -> bool:
    """Shake hands and authenticate, for the first time or again. Returns whether the broker agreed.

    Raises ConnectionClosedError.
    """
    if client.request("SaslHandshake", {"mechanism": login.mechanism}, version=1).get("errorCode", -1):
        return False
    tokens = (_scram if MECHANISMS[login.mechanism] else _plain)(login)
    challenge: bytes | None = None
    while True:
        try:
            token = tokens.send(challenge)
        except StopIteration:
            return True
        except (KeyError, ValueError):
            # The broker's challenge is not one of SCRAM.
            return False
        given = {"authBytes": base64.b64encode(token).decode()}
        answer = client.request("SaslAuthenticate", given, version=version)
        if answer.get("errorCode", 0) or "authBytes" not in answer:
            return False
        challenge = base64.b64decode(answer["authBytes"] or "")


Tokens = Generator[bytes, bytes | None, None]
"""Yields what the client sends, and is sent the broker's answers."""


def _plain(login: Login) -> Tokens:
    yield f"\0{login.user}\0{login.password}".encode()


def _scram(login: Login) -> Tokens:
    """Show the proof of a password. The broker's own proof is not checked: it is under test, not trusted."""
    name = MECHANISMS[login.mechanism]
    user = login.user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={user},r={secrets.token_urlsafe(18)}"
    challenge = yield f"n,,{bare}".encode()
    told = (challenge or b"").decode()
    fields = dict(part.split("=", 1) for part in told.split(","))
    rounds = int(fields["i"])
    if not 0 < rounds <= MOST_ROUNDS:
        raise ValueError("no broker needs as many rounds")
    final = f"c=biws,r={fields['r']}"
    salted = hashlib.pbkdf2_hmac(name, login.password.encode(), base64.b64decode(fields["s"]), rounds)
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), f"{bare},{told},{final}".encode(), name)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    yield f"{final},p={base64.b64encode(proof).decode()}".encode()
