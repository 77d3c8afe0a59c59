"""What several rules of KIP-1313 ask of a request: rulings on its header, and the ID that it asks for."""

from __future__ import annotations

from decoders.protocol import GET_TELEMETRY_SUBSCRIPTIONS, SASL_HANDSHAKE
from expectations.conversation.bodies import TelemetryIdentity
from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.rules.base.reason import Reason, why_first_unknown, why_incomplete, why_unread, why_untold
from expectations.rules.base.rule import Judgement, Ruling, Verdict, conforms, undecided


def judgement_of(ruling: Ruling, request: Observation) -> Judgement:
    """Return the judgement that is no offence."""
    if isinstance(ruling, Reason):
        return undecided(ruling, request.count)
    return conforms(request.count)


def first_gave_id(conversation: Conversation) -> bool | None:
    """Whether the connection's first request gave an ID; None if that is not known."""
    first = conversation.first_identified
    if first is None or not conversation.beginning_seen or not first.has_header:
        return None
    return first.instance_id is not None


def missing(request: Observation, conversation: Conversation) -> Ruling | None:
    """Whether a request lacks the ID that the connection's first one gave; None if it need not give it."""
    if request.api_key == SASL_HANDSHAKE:
        return None
    if conversation.instance_id is None or conversation.is_first_identified(request):
        return None
    is_required = first_gave_id(conversation)
    if is_required is None:
        return why_first_unknown(conversation) if request.instance_id is None else None
    return _missing_where_required(request, conversation) if is_required else None


def _missing_where_required(request: Observation, conversation: Conversation) -> Ruling | None:
    """Whether a request lacks the ID that it must give.

    None if it is on an older header because the broker offers no version on header v3: KIP-35 keeps the
    client within the range that the broker advertises.
    """
    if not request.has_header:
        return why_unread(request)
    if request.instance_id is not None:
        return Verdict.CONFORMS
    if request.uses_header_v3:
        return Verdict.VIOLATES
    advertised = conversation.advertised
    if advertised is None:
        return why_untold(conversation)
    if request.api_key not in advertised.ranges:
        return Reason.NOT_SHOWN
    return Verdict.VIOLATES if advertised.offers_header_v3(request.api_key) else None


def changed(request: Observation, conversation: Conversation) -> Ruling | None:
    """Whether a request's ID is another than the connection's first; None if there are not two IDs."""
    if conversation.instance_id is None:
        return None
    if request.instance_id is None:
        return None if request.has_header else why_unread(request)
    if request.first_sequence == conversation.instance_id_sequence:
        return None
    return Verdict.CONFORMS if request.instance_id == conversation.instance_id else Verdict.VIOLATES


def zero_at_first(request: Observation, conversation: Conversation) -> Ruling | None:
    """Whether a first request on header v3 gives no ID; None for any other request."""
    if not conversation.is_first_identified(request):
        return None
    if not request.uses_header_v3:
        return None
    if not conversation.beginning_seen:
        return why_incomplete(conversation)
    return Verdict.VIOLATES if request.instance_id is None else Verdict.CONFORMS


def zero_later(request: Observation, conversation: Conversation) -> Ruling | None:
    """Whether a later request on header v3 gives no ID although the connection is not bound to one.

    None where another rule judges it: if the first request used header v3, its ID binds the connection, or
    the lack of one was the offence.
    """
    if not request.uses_header_v3:
        return None
    first = conversation.first_identified
    if first is None or conversation.is_first_identified(request):
        return None
    if not conversation.beginning_seen or not first.has_header:
        return why_first_unknown(conversation) if request.instance_id is None else None
    if first.header_version == 3:
        return None
    return Verdict.VIOLATES if request.instance_id is None else Verdict.CONFORMS


def sent_on_older_header(request: Observation, conversation: Conversation) -> bool:
    """Whether a later request has a client ID of an older header, on a connection that uses header v3."""
    if not conversation.uses_header_v3:
        return False
    return request.header_version in (1, 2) and not conversation.is_first(request)


def asked_identity(request: Observation) -> str | None:
    """Return the ID in the body of a GetTelemetrySubscriptions request; None for anything else."""
    asks = request.api_key == GET_TELEMETRY_SUBSCRIPTIONS
    return request.body.instance_id if asks and isinstance(request.body, TelemetryIdentity) else None
