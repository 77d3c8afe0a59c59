"""kip35/request-before-sasl."""

from __future__ import annotations

from collections.abc import Sequence

from decoders.protocol import OPENING_APIS
from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.known_ranges import known_ranges, serves
from expectations.rules.base.reason import Reason, why_partly_seen
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class RequestBeforeSasl(IdentityRule):
    """Checks that a client logs in where a listener demands it.

    ## Why it matters
    The broker closes the connection without a word: no error names the missing login. The client connects
    again, and its log says that the connection was lost, or that the broker may be too old.

    ## Example
    A client asks a listener of SASL_PLAINTEXT for its versions, gets them, sends Metadata, and the broker
    closes. Other clients log in there.

    ## What to do
    Set the client's `security.protocol` to that of the listener, and give it a user. Or let it connect to a
    listener without SASL.

    ## What it does not cover
    The listener is known by others: it served a connection that logged in, and none that did not. An address
    with both, such as a load balancer before two listeners, is undecided. So is a connection that was joined
    midway, that lost bytes, or whose login failed. At an address where nobody logs in nothing is judged, nor
    is an API that the broker does not list: clients of Kafka 0.9 log in by tokens that no handshake precedes.
    The broker must close first, while the request is the only one in flight.
    """

    section = "SaslServerAuthenticator, handleKafkaRequest"
    requirement = "Before a login, a SASL listener takes nothing but ApiVersions and the login itself."
    needs = "a client at a listener that demands a login"
    message = (
        "{api} v{version} was sent without a login, and the broker closed: others log in at this address"
    )
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    kind = IdentityKind.BROKER
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the broker closed upon a request with which no connection may begin."""
        refused = claim.refused
        return refused is not None and not refused.by_error and refused.api_key not in OPENING_APIS

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a close by whom the server serves."""
        assert claim.refused is not None
        if not serves(others, after_login=True) or not known_ranges(claim, others).lists_the_api:
            return None
        if claim.refused.admitted:
            return conforms()
        if not claim.whole:
            return undecided(why_partly_seen(claim))
        if claim.refused.shook_hands:
            return undecided(Reason.OTHER_CAUSE)
        if serves(others, after_login=False):
            return undecided(Reason.AMBIGUOUS_BROKER)
        return violates(expected="a login", observed="none")
