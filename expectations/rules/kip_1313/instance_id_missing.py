"""kip1313/instance-id-missing."""

from __future__ import annotations

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.conversation.texts import identifier_text
from expectations.rules.base.rule import Judgements, Level, NoState, Role, Rule, Verdict, violates
from expectations.rules.kip_1313._instance_ids import judgement_of, missing


class InstanceIdMissing(Rule):
    """Checks that every request carries a client instance ID once the first one did.

    ## Why it matters
    A broker that follows the KIP refuses such a request with INVALID_REQUEST. If it does not, the
    request cannot be traced to the instance.

    ## Example
    `Metadata v14, header v3, ID 7b6e…` and then `FindCoordinator v7, header v3, ID zero`, or
    `FindCoordinator v6` on header v2, which has no place for an ID.

    ## What to do
    Use API versions on header v3 for all requests of a connection that began with one, and send the
    same ID in each.

    ## What it does not cover
    SaslHandshake, which cannot carry an ID. A request on an older header whose API the broker offers up to
    such a version only: the client keeps to the advertised range, and the omission is the broker's, see
    kip1313/header-v3-not-offered. A request on an older header is undecided if no advertised range of its
    API is known. So is every request of a connection whose first request was not seen or not readable.
    """

    section = "Proposed Changes, Client Instance ID"
    requirement = (
        "Once the first request gave a client instance ID, every later one gives it, SaslHandshake excepted, "
        "as far as the broker offers versions that can carry it."
    )
    needs = "a request after a first one that gave an instance ID"
    message = "a request carries no client instance ID ({missing}) although the first one did"
    level = Level.VIOLATION
    role = Role.CLIENT
    needs_header_v3 = True

    def on_request(self, request: Observation, conversation: Conversation, state: NoState) -> Judgements:
        """Judge each request after the first that could carry an ID."""
        ruling = missing(request, conversation)
        if ruling is Verdict.VIOLATES:
            how = "zero in header v3" if request.uses_header_v3 else f"header v{request.header_version}"
            expected = f"client instance ID {identifier_text(conversation.instance_id or b'')}"
            yield violates(request.count, expected, how, {"missing": how})
        elif ruling is not None:
            yield judgement_of(ruling, request)
