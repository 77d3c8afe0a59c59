"""A connection to a broker under test: recorded as packets, with a limit on all that the broker may do.

What is sent and received becomes plaintext packets of the real addresses, which are judged like any capture.
The client acknowledges at once what it has read, so a later request was sent in knowledge of it. A broker
that does not respond in time, or announces more than is read of a response, costs neither time nor memory:
the connection ends, and `Trouble` says why.
"""

from __future__ import annotations

import enum
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address

from decoders.frame.record import Direction
from decoders.schema.registry import Schemas
from decoders.wire.other_protocol import OtherProtocol, protocol_of_server
from decoders.wire.packet import Packet
from decoders.wire.segment import SocketAddress
from decoders.wire.synthesis import SyntheticConnection
from streaming.probe.client import ConnectionClosedError, InstanceClient, new_instance_id
from streaming.probe.login import OPEN, Security, authenticate

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
        )
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
            _address(self._socket.getsockname()),
            _address(self._socket.getpeername()),
            # With equal sequences, a later connection of the same port would look like a repetition.
            initial_sequences=(secrets.randbits(32), secrets.randbits(32)),
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


def _address(name: tuple[str, int]) -> SocketAddress:
    return SocketAddress(ip_address(name[0].partition("%")[0]).packed, name[1])
