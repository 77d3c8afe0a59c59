"""kip1313/header-version-mismatch."""

from __future__ import annotations

from decoders.schema.header_versions import Layout
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import Reason, why_unread
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


class HeaderVersionMismatch(Rule):
    """Checks that a request has the header version that its API version calls for.

    ## Why it matters
    The header version is not on the wire: both sides look it up. A broker that reads another one
    takes the instance ID for tagged fields, or the other way round, and closes the connection.

    ## Example
    `Metadata v13`, which has header v2, sent with the 16 bytes of an instance ID in its header.

    ## What to do
    Look the header version up per API and version, in the schema's `headerVersions`. OffsetDelete goes from
    header v1 to v3; SaslHandshake stays on v1.

    ## What it does not cover
    Requests that make sense behind no header, or behind several, are undecided. So are those that make
    sense on their own header but for bytes that brokers tolerate. API versions that only KIP-1313
    gives are not judged as long as no complete request on header v3 was seen on the connection: a later
    release may use those numbers for something else. In the layout of the later revision header v3
    without an ID is the same bytes as header v2, so there nothing is reported.
    """

    section = "Changes to the Kafka protocol message schemas"
    requirement = "Each version of a request has the header version that headerVersions assigns to it."
    needs = "a request"
    message = "{api} v{version} only makes sense on header v{header}, which is not its own"
    level = Level.VIOLATION
    role = Role.CLIENT
    passes_clean = True
    implies = ("wire/malformed-request", "wire/unknown-api")

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request whose header version is known."""
        if request.other_header is not None:
            yield from self._judge_other(request, conversation)
        elif request.has_header:
            yield conforms(request.count)
        elif request.known:
            yield undecided(why_unread(request), request.count)

    def _judge_other(self, request: Observation, conversation: Conversation) -> Judgements:
        if request.has_header:
            yield undecided(Reason.UNREADABLE, request.count)
        elif request.known or conversation.layout is Layout.PLAIN:
            header = str(request.other_header)
            expected = f"the header version of version {request.api_version}"
            yield violates(request.count, expected, f"header v{header}", {"header": header})
