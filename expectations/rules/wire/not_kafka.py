"""wire/not-kafka."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.wire.frame_detector import OtherProtocol, is_broken_length
from expectations.identity.claim import Claim, IdentityKind
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates

_OF_OTHER_LISTENERS = frozenset({OtherProtocol.TLS, OtherProtocol.PROXY})
"""What a Kafka port may speak instead of Kafka in the clear."""
_KAFKA = "Kafka"


class NotKafka(IdentityRule):
    """Checks that what is sent to a Kafka port is Kafka.

    ## Why it matters
    The broker takes the first four bytes for the length of a frame and closes the connection. Its log
    names that number (`Invalid receive`), but not the program behind it.

    ## Example
    A load balancer that asks a broker for its health by `GET /`

    ## What to do
    Find the program at the client's address. HTTP is a health check or a client with the wrong port. TLS
    is a client that wants encryption where the listener has none. A PROXY protocol header is a load
    balancer that is told to send one. Noise is another protocol, or a scanner.

    ## What it does not cover
    - Connections that were joined midway, lost their first bytes, or are closed without a byte.
    - Protocols to which the server responded, on this connection or on another: it speaks them, as a port
      of a service mesh may speak TLS beside plaintext.
    - Ports of which nothing is known. They must be named (`--ports`), or a client must have got a Kafka
      response there. At a port that is only named, TLS and PROXY headers are undecided: it may be a
      listener for these.
    - Connections after the first one of a client address, and client addresses after the first
      sixty or so of a port.
    - The lengths of a broken encoder, such as 0 and -1, at a named port: wire/frame-size-invalid.
    """

    section = "Protocol guide, Network"
    requirement = "A client begins a connection to a broker with a request, preceded by its length."
    needs = "a connection to a Kafka port"
    message = "a connection to a Kafka port begins with {protocol} (read as a length: {size})"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    kind = IdentityKind.LISTENER
    # The first connection of each address is known only when others had time to arrive.
    waits = True

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge the first bytes of an address by whether others speak Kafka to the same port."""
        foreign = claim.foreign
        if foreign is None:
            return conforms()
        protocol, spoken = foreign.protocol, {_spoken(other) for other in others}
        is_of_sizes = foreign.named_port and is_broken_length(foreign.size)
        if foreign.responded or protocol in spoken or is_of_sizes:
            return None
        if _KAFKA not in spoken:
            if not foreign.named_port:
                return None
            if protocol in _OF_OTHER_LISTENERS:
                return undecided(Reason.NOT_SHOWN)
        return violates(
            expected="a Kafka request",
            observed=str(protocol),
            context={
                "protocol": str(protocol),
                "size": str(foreign.size),
                "beginning": foreign.beginning.hex(),
            },
        )


def _spoken(claim: Claim) -> str | None:
    """Return what the server speaks, as a claim shows."""
    if claim.foreign is None:
        return _KAFKA
    return claim.foreign.protocol if claim.foreign.responded else None
