"""The facts of telemetry: the client instance IDs that the broker assigned on a connection (KIP-714)."""

from __future__ import annotations

import msgspec

from decoders.frame.record import Kind
from decoders.protocol import GET_TELEMETRY_SUBSCRIPTIONS
from expectations.conversation.bodies import TelemetryIdentity
from expectations.conversation.identifier import ZERO
from expectations.conversation.observation import Observation

ASSIGNED_LIMIT = 8
"""Assigned IDs that are kept. A client asks for one, and again only if it lost the response."""


class Telemetry(msgspec.Struct, omit_defaults=True):
    """`assigned` holds the IDs, latest last, `asking` the sequences of requests that wait for one."""

    assigned: list[str] = []
    asking: list[int] = []

    def process(self, observation: Observation) -> None:
        """Process one observation."""
        if observation.kind in (Kind.GAP, Kind.INVALID_SIZE):
            self.asking.clear()
        elif asked_identity(observation) == ZERO:
            self.asking = [*self.asking, observation.first_sequence][-ASSIGNED_LIMIT:]
        elif observation.is_matched and observation.paired_sequence in self.asking:
            self.asking.remove(observation.paired_sequence)
            self._process_response(observation)

    def _process_response(self, response: Observation) -> None:
        body = response.body
        if isinstance(body, TelemetryIdentity) and response.errors == (0,) and body.instance_id != ZERO:
            self.assigned = [*self.assigned, body.instance_id][-ASSIGNED_LIMIT:]


def asked_identity(request: Observation) -> str | None:
    """Return the ID in the body of a GetTelemetrySubscriptions request; None for anything else."""
    asks = request.kind is Kind.REQUEST and request.api_key == GET_TELEMETRY_SUBSCRIPTIONS
    return request.body.instance_id if asks and isinstance(request.body, TelemetryIdentity) else None
