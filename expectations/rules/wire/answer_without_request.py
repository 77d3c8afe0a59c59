"""wire/answer-without-request."""

from __future__ import annotations

from decoders.frame.record import Pairing
from expectations.rules.wire._bases import PairingRule


class AnswerWithoutRequest(PairingRule):
    """Checks that a broker sends no response without a request that expects one.

    ## Why it matters
    The client takes it for the response to its next request and misreads all that follow, or closes the
    connection.

    ## Example
    A Produce with acks 0, and then a response to it

    ## What to do
    Look for what responds twice: a broker that responds to a Produce with acks 0, or a proxy that sends
    a response of its own and then the broker's.

    ## What it does not cover
    Responses that come out of order: wire/correlation-mismatch. After lost bytes a request may have
    passed unseen: undecided.
    """

    section = "Protocol guide, Network"
    requirement = "A broker sends one response for each request that expects one."
    needs = "a response"
    message = "a response with correlation ID {observed} came although no request waits for one"
    conforming = frozenset({Pairing.MATCHED, Pairing.FOREIGN})
    offence = Pairing.UNOWED
    expected = "no response"
    observed = "correlation ID {}"
