"""kip35/ranges-changed."""

from __future__ import annotations

from decoders.protocol import NO_ERROR
from expectations.conversation.bodies import Advertisement
from expectations.conversation.conversation import Conversation
from expectations.conversation.negotiation import Advertised, Asked
from expectations.conversation.observation import Observation
from expectations.rules.base.negotiation_rule import NegotiationResponseRule
from expectations.rules.base.reason import why_incomplete
from expectations.rules.base.rule import Judgement, Judgements, Level, Role, conforms, undecided, violates


class RangesChanged(NegotiationResponseRule):
    """Checks that a broker advertises the same versions throughout a connection.

    ## Why it matters
    Nobody is wrong, but a client that remembers the first list uses versions that may be gone, and a
    client that goes by the second behaves differently from its neighbours.

    ## Example
    The first ApiVersions response of a connection lists `Metadata 0 to 13`, a later one `0 to 12`.

    ## What to do
    Find out what changed in between: a feature that was finalised or taken back, a controller that
    was upgraded, a proxy in front of several brokers.

    ## What it does not cover
    The KIP asks for the full list before authentication, too; if the first list came before it, the
    finding says so, and kip35/ranges-withheld judges what it lacked. After lost bytes that may have held a
    list, or on a connection joined midway, there is nothing to compare with: undecided.
    """

    section = "Proposed Changes"
    requirement = "The list of ApiVersions holds for the connection, whatever its state of authentication."
    needs = "two lists of versions on one connection"
    message = "the advertised versions changed{when}: {changes}"
    level = Level.INFORMATION
    role = Role.BROKER

    def judge_response(
        self, response: Observation, asked: Asked | None, conversation: Conversation
    ) -> Judgements:
        """Compare each advertisement with the one before."""
        body, before, now = response.body, conversation.superseded, conversation.advertised
        if not isinstance(body, Advertisement) or body.error_code != NO_ERROR or now is None:
            return
        if before is None:
            if not conversation.unbroken:
                yield undecided(why_incomplete(conversation))
        elif before.ranges == now.ranges:
            yield conforms()
        else:
            yield self._violates(before, now)

    def _violates(self, before: Advertised, now: Advertised) -> Judgement:
        authenticated_since = before.before_login and not now.before_login
        when = " (the first list was given before authentication)" if authenticated_since else ""
        changes = ", ".join(
            f"API {key} from {_text(before.ranges.get(key))} to {_text(now.ranges.get(key))}"
            for key in sorted(before.ranges.keys() | now.ranges.keys())
            if before.ranges.get(key) != now.ranges.get(key)
        )
        phase = {"phase": "before-authentication"} if authenticated_since else {}
        return violates(
            expected="the versions advertised first",
            observed=changes,
            context={"when": when, "changes": changes, **phase},
        )


def _text(versions: tuple[int, int] | None) -> str:
    return "none" if versions is None else f"{versions[0]}-{versions[1]}"
