"""kip1242/rebootstrap-ignored."""

from __future__ import annotations

from decoders.protocol import REBOOTSTRAP_REQUIRED
from expectations.rules.base.negotiation_rule import RefusedConnectionRule
from expectations.rules.base.rule import Level, Role


class RebootstrapIgnored(RefusedConnectionRule):
    """Checks that a client leaves a connection on which it was told to rebootstrap.

    ## Why it matters
    It talks to a broker that it did not mean to reach, with metadata that is not this cluster's.

    ## Example
    `ApiVersions v5` is refused with error 129, and two seconds later comes `Metadata v13`.

    ## What to do
    Close the connections to all known nodes, discard cluster ID and node IDs, and bootstrap anew; or
    close the connection where rebootstrapping is switched off.

    ## What it does not cover
    Requests that may have been under way when the response came: undecided. These are all requests of the
    first second, if the client pipelines, and otherwise the first two of them. So are all requests on a
    connection that several clients share, as behind a proxy that pools. A client that sends nothing more
    conforms once the connection has ended.
    """

    section = "Public Interfaces, ApiVersions"
    requirement = "A client whose ApiVersions is refused with REBOOTSTRAP_REQUIRED rebootstraps."
    needs = "a client that is told to rebootstrap"
    message = "{api} v{version} was sent after ApiVersions had been answered with error {error}"
    level = Level.IMPROVEMENT
    role = Role.CLIENT
    implies = ("kip1242/misrouted", "kip1242/rebootstrap-without-cause")
    error = REBOOTSTRAP_REQUIRED
