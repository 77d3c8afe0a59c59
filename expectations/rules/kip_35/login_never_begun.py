"""kip35/login-never-begun."""

from __future__ import annotations

from collections.abc import Sequence

from expectations.identity.claim import Claim, IdentityKind
from expectations.identity.known_ranges import serves
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import IdentityRule, Judgement, Level, Role, conforms, undecided, violates


class LoginNeverBegun(IdentityRule):
    """Checks that a client that asks a listener for its versions goes on to log in.

    ## Why it matters
    Versions are told to everybody who asks, before any login, and they tell the release of the broker.
    Whoever asks for nothing else is a scanner, a health check, or a client that gives up.

    ## Example
    A client sends ApiVersions to a listener of SASL_SSL, gets the response, and closes the connection. Other
    clients log in there.

    ## What to do
    Find the program at the client's address. If it should not know the release of the broker, let the
    listener demand certificates of clients (`ssl.client.auth`), or keep strangers from the port.

    ## What it does not cover
    Connections after the first one of a client address, and client addresses after the first eight of an
    hour. A client that began to log in and failed: the broker's response tells why. A connection that was
    joined midway or lost bytes. An address that serves clients after a login and without one is undecided.
    """

    section = "SaslServerAuthenticator, handleKafkaRequest"
    requirement = "What follows ApiVersions at a SASL listener is a login."
    needs = "a client at a listener that demands a login"
    message = "a client asked for the versions, and the connection ended without a login: others log in here"
    level = Level.INFORMATION
    role = Role.CLIENT
    kind = IdentityKind.BROKER
    waits = True

    def concerns(self, claim: Claim) -> bool:
        """Whether the connection ended after ApiVersions."""
        return claim.only_asked

    def judge_claim(self, claim: Claim, others: Sequence[Claim]) -> Judgement | None:
        """Judge a connection by whom else the server serves."""
        is_demanded, is_needless = (serves(others, after_login=login) for login in (True, False))
        if not is_demanded:
            return conforms() if is_needless else None
        if is_needless:
            return undecided(Reason.AMBIGUOUS_BROKER)
        return violates(expected="a login", observed="none")
