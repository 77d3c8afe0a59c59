"""Why a connection is opaque, which means that all its further bytes are skipped.

A connection is not Kafka if the client's first bytes cannot be a request, if the server sends first, or if it
was joined mid-stream and carries TLS records. In the first case the first bytes are recorded when the
connection ends, and whether the server responded: then it speaks that protocol.

If there is a key log, TLS is decrypted before it gets to the Kafka layer, and what cannot be decrypted is
skipped as encrypted: all that follows bytes that could not be read, or TLS records of a connection that was
joined mid-stream.

A connection is excluded if the first request that is captured has an excluded client ID. This request is
recorded, and a GAP after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from decoders.frame.record import Direction, Flag, Kind, Record
from decoders.tls.outcome import Outcome
from decoders.wire.assembly import PREFIX, Frame
from decoders.wire.frame_detector import FrameDetector
from decoders.wire.framing import NoRequest
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.other_protocol import OtherProtocol, is_gssapi_token, protocol_of
from decoders.wire.recorder import Recorder
from decoders.wire.tls import begins_with_record


class Opacity:
    """Why one connection is opaque, or may become so; `decrypts` is true if there is a key log.

    The caller sets `is_kafka` when a frame is captured: nothing that follows is then taken for another
    protocol. `awaits_client` is true until a request shows whether the client is excluded. `is_encrypted`
    means that the connection is TLS, and is not decrypted any more.
    """

    def __init__(
        self, detector: FrameDetector, ledger: Ledger, recorder: Recorder, *, decrypts: bool
    ) -> None:
        self.is_kafka = False
        self.awaits_client = detector.excludes_clients
        self.is_excluded = False
        self.is_encrypted = False
        self._detector = detector
        self._ledger = ledger
        self._recorder = recorder
        self._decrypts = decrypts
        self._other_protocol = OtherProtocol.TLS
        self._no_request: NoRequest | None = None

    @property
    def reason(self) -> SkipReason:
        """Why the bytes of an opaque connection are skipped."""
        if self.is_excluded:
            return SkipReason.EXCLUDED
        return SkipReason.ENCRYPTED if self.is_encrypted else SkipReason.OPAQUE

    @property
    def reason_if_tls(self) -> SkipReason:
        """Why bytes are skipped that turn out to be TLS records."""
        return SkipReason.ENCRYPTED if self._decrypts else SkipReason.OPAQUE

    def is_tls(self, data: bytes | bytearray) -> bool | None:
        """Whether bytes after a gap are TLS records. None if more bytes are needed."""
        verdict = not self.is_kafka and begins_with_record(data)
        if verdict:
            self._note_unread_handshake()
        return verdict

    def answers_hello(self, beginning: bytes) -> bool:
        """Whether the server's first bytes answer a ClientHello that was not captured, or not whole."""
        is_tls = not self.is_kafka and protocol_of(beginning[:PREFIX]) is OtherProtocol.TLS
        if is_tls:
            self._note_unread_handshake()
        return is_tls

    def note_protocol(self, beginning: bytes) -> None:
        """Note which protocol it is whose first bytes these are."""
        self._other_protocol = protocol_of(beginning[:PREFIX])

    def note_no_request(self, no_request: NoRequest) -> None:
        """Note the client's first bytes, which are no request."""
        self.note_protocol(no_request.beginning)
        self._no_request = None if is_gssapi_token(no_request.beginning) else no_request

    def note_encrypted(self, first: NoRequest) -> None:
        """Note that the connection is TLS that cannot be decrypted; `first` has its first bytes."""
        self.is_encrypted = True
        if not self.is_kafka:
            self._no_request = first

    def excludes(self, request: Frame) -> bool:
        """Whether a request has a client ID that is excluded; the first one with a client ID decides."""
        verdict = self._detector.is_excluded(request.payload)
        self.awaits_client, self.is_excluded = verdict is None, verdict is True
        return self.is_excluded

    def count_connection(self) -> None:
        """Count the connection under the protocol that it carries instead of Kafka."""
        self._ledger.count_opaque(self._other_protocol)

    def record_other_protocol(self, *, has_response: bool) -> Iterator[Record]:
        """Yield a NOT_KAFKA if the client began with something else than a request.

        If there is a key log, a ClientHello counts as answered: other connections to a port that speaks TLS
        become Kafka, and one that an overloaded or ending broker leaves alone must not stand out from them.
        """
        if self._no_request is not None:
            beginning, captured_at, position = self._no_request
            is_tls = protocol_of(beginning[:PREFIX]) is OtherProtocol.TLS
            has_response = has_response or (self._decrypts and is_tls)
            flags = Flag.NAMED_PORT if self._recorder.is_port_named else Flag.NONE
            yield self._recorder.record(
                Kind.NOT_KAFKA,
                captured_at,
                position,
                direction=Direction.TO_BROKER,
                true_length=PREFIX,
                frame=beginning[:PREFIX],
                flags=flags | Flag.RESPONDED if has_response else flags,
            )

    def _note_unread_handshake(self) -> None:
        """Count a TLS connection that a key log cannot open: its handshake was not captured whole."""
        if self._decrypts:
            self.is_encrypted = True
            self._ledger.count_tls(Outcome.NO_HANDSHAKE)
