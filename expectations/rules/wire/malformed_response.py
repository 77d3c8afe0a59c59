"""wire/malformed-response."""

from __future__ import annotations

from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import Reason, why_unread
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, conforms, undecided, violates


class MalformedResponse(Rule):
    """Checks that a complete response can be decoded by the schema of the request's API version.

    ## Why it matters
    The client cannot read it either: it drops the connection, or misreads the response.

    ## Example
    A response to `Metadata v12` whose list of brokers claims more bytes than there are

    ## What to do
    The context gives the field's path, the byte offset in the frame and the reason: compare the
    broker's encoder with Kafka's schema of that API version there.

    ## What it does not cover
    API versions that the loaded schemas do not know, and a refusal of ApiVersions in a layout that it
    must not have: see kip511/unsupported-answer-not-v0. Responses that were not captured whole, or
    cut unread, and responses that may belong to another request, are undecided.
    """

    section = "Protocol guide, Response Header and the API's schema"
    requirement = "A response follows the schema of the API version that the request names."
    needs = "a response"
    message = "the response to {api} v{version} cannot be decoded: {reason} at {path}, byte {offset}"
    level = Level.VIOLATION
    role = Role.BROKER
    implies = ("kip511/unsupported-answer-not-v0",)
    passes_clean = True

    def on_response(self, response: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each response to a known API version."""
        if not response.known:
            return
        failure = response.failure
        if response.is_partly_read or not response.is_matched:
            yield undecided(why_unread(response), response.count)
        elif failure is None:
            yield conforms(response.count)
        elif not conversation.is_certain(response):
            yield undecided(Reason.UNPAIRED, response.count)
        elif isinstance(response.body, Advertisement):
            yield undecided(Reason.UNREADABLE, response.count)
        else:
            yield violates(
                response.count,
                expected=f"a response by the schema of version {response.api_version}",
                observed=failure.reason,
                context=failure.context,
            )
