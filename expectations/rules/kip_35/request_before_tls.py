"""kip35/request-before-tls."""

from __future__ import annotations

from decoders.frame.record import Direction, Kind
from expectations.conversation.conversation import Conversation, FirstAnswer
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import why_incomplete
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


class RequestBeforeTls(Rule):
    """Checks that a client speaks TLS where a listener does.

    ## Why it matters
    The listener answers the request with an alert of TLS and closes. The client reads the alert as a frame of
    350 MB: it runs out of memory, or logs that the connection was lost or that a response is too large.

    ## Example
    A client asks a listener of SSL for its versions in plaintext. The response begins with the bytes
    `15 03 03 00`.

    ## What to do
    Set the client's `security.protocol` to that of the listener, `SSL` or `SASL_SSL`, or let it connect to a
    listener in plaintext.

    ## What it does not cover
    Listeners that close without an alert, as some proxies do. A connection that was joined midway, or whose
    first bytes were lost, is undecided. TLS that is sent to a listener in plaintext is wire/not-kafka.
    """

    section = "Proposed Changes"
    requirement = "On a TLS listener no Kafka request is sent before the TLS handshake."
    needs = "a connection in plaintext on which the server sends something"
    message = "requests were sent in plaintext to a TLS listener, which answered with an alert"
    level = Level.IMPROVEMENT
    role = Role.CLIENT

    def on_loss(self, loss: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge the first bytes of the server that are no frame."""
        is_alert = conversation.first_answer is FirstAnswer.TLS_ALERT
        if is_alert and loss.kind is Kind.INVALID_SIZE and loss.direction is Direction.TO_CLIENT:
            if conversation.beginning_seen:
                yield violates(expected="a TLS handshake", observed="a Kafka request")
            else:
                yield undecided(why_incomplete(conversation))

    def close(self, conversation: Conversation, state: NoState) -> Judgements:
        """Count a connection to which the server sent anything else, or may have."""
        if conversation.first_answer is FirstAnswer.OTHER:
            yield conforms()
        elif conversation.first_answer is FirstAnswer.UNSEEN:
            yield undecided(why_incomplete(conversation))
