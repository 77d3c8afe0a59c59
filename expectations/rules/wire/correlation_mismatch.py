"""wire/correlation-mismatch."""

from __future__ import annotations

from decoders.frame.record import Pairing
from expectations.rules.wire._bases import PairingRule


class CorrelationMismatch(PairingRule):
    """Checks that a broker responds to requests in their order, each with its own correlation ID.

    ## Why it matters
    The client takes the response for that of another request, or closes the connection. Reading one
    request's response as another's can corrupt what it believes of offsets and members.

    ## Example
    Requests 7 and 8 are on their way, and the first response has correlation ID 8.

    ## What to do
    Look for what reorders or invents responses: most often a proxy that forwards the requests of one
    connection on several.

    ## What it does not cover
    Responses that no request expects: wire/answer-without-request. A Produce with acks 0 has no
    response. After lost bytes, or a Produce that could not be read, order proves nothing until a response
    matches a later request: undecided.
    """

    section = "Protocol guide, Network"
    requirement = "Responses on a connection come in the order of the requests, with their correlation IDs."
    needs = "a response"
    message = "a response has correlation ID {observed}, which is not that of the oldest open request"
    conforming = frozenset({Pairing.MATCHED})
    offence = Pairing.FOREIGN
    expected = "the correlation ID of the oldest request without a response"
    observed = "{}"
