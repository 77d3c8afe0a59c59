"""Faults and an upgrade of a broker, which the front simulates where a client ID requests one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from decoders.codec.request import Request
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import Schemas
from streaming.demo.scenario import new_member_id

RENAMING, INVERTING = "kipwatch-1313-renamed", "kipwatch-1313-inverted"
UPGRADED = "kipwatch-1313-upgraded"
FIND_COORDINATOR, LOWEST_LEFT = 10, 4
"""An API, and the lowest version of it that an upgraded broker still has."""
Body = dict[str, Any]


def _rename(body: Body) -> Body:
    """Return another member ID than the client's own."""
    return {**body, "memberId": new_member_id()}


def _invert(body: Body) -> Body:
    """Advertise a lowest version above the highest for the last API, which no client uses."""
    *others, last = body["apiKeys"]
    return {**body, "apiKeys": [*others, {**last, "minVersion": last["maxVersion"] + 1}]}


def _upgrade(body: Body) -> Body:
    """Advertise FindCoordinator from a higher version on, as an upgrade that removes old versions does."""
    entries = [
        {**entry, "minVersion": LOWEST_LEFT} if entry["apiKey"] == FIND_COORDINATOR else entry
        for entry in body["apiKeys"]
    ]
    return {**body, "apiKeys": entries}


_FAULTS: Mapping[tuple[str, str], Callable[[Body], Body]] = {
    (RENAMING, "ConsumerGroupHeartbeat"): _rename,
    (INVERTING, "ApiVersions"): _invert,
    (UPGRADED, "ApiVersions"): _upgrade,
}
"""The faults by client ID and by the API whose response is altered."""


def altered(schemas: Schemas, client_id: str | None, request: Request, response: bytes) -> bytes:
    """Return the broker's response, altered if the client ID requests a fault of this API."""
    fault = _FAULTS.get((client_id or "", request.api.name)) if request.api else None
    if fault is None or request.api is None:
        return response
    key, version, number = request.api.key, request.api_version, request.correlation_id or 0
    body = read_response(schemas, response, key, version).body or {}
    return write_response(schemas, key, version, number, fault(body))
