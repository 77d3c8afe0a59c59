"""kip511/connection-kept."""

from __future__ import annotations

from decoders.protocol import INVALID_REQUEST
from expectations.rules.base.negotiation_rule import RefusedConnectionRule
from expectations.rules.base.rule import Level, Role


class ConnectionKept(RefusedConnectionRule):
    """Checks that a client closes a connection whose ApiVersions was refused with INVALID_REQUEST.

    ## Why it matters
    The response lists no versions, so whatever the client sends next is a guess. A client that goes on
    hides from its user that it misidentifies itself.

    ## Example
    `ApiVersions v3` is refused with error 42, and two seconds later comes `Metadata v9`.

    ## What to do
    Treat INVALID_REQUEST to ApiVersions as fatal: report it and close the connection.

    ## What it does not cover
    Requests that may have been under way when the response came: undecided. These are all requests of the
    first second, if the client pipelines, and otherwise the first two of them. So are all requests on a
    connection that several clients share, as behind a proxy that pools. A client that sends nothing more
    conforms once the connection has ended.
    """

    section = "Proposed Changes, Validation"
    requirement = "A client whose ApiVersions is refused with INVALID_REQUEST closes the connection."
    needs = "a client whose ApiVersions is refused with INVALID_REQUEST"
    message = "{api} v{version} was sent after ApiVersions had been answered with error {error}"
    level = Level.VIOLATION
    role = Role.CLIENT
    implies = (
        "kip511/software-name-malformed",
        "kip511/software-version-malformed",
        "kip511/wellformed-name-refused",
        "kip1242/half-identified",
    )
    error = INVALID_REQUEST
