"""Faults of a broker, which the front commits on connections whose client ID asks for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from decoders.codec.request import Request
from decoders.codec.response import read_response, write_response
from decoders.schema.registry import Schemas
from streaming.demo.scenario import new_member_id

RENAMING, INVERTING = "kipwatch-1313-renamed", "kipwatch-1313-inverted"
Body = dict[str, Any]


def _rename(answer: Body) -> Body:
    """Give the member another ID than the one it came with."""
    return {**answer, "memberId": new_member_id()}


def _invert(answer: Body) -> Body:
    """Advertise an API whose lowest version is above the highest: the last one listed, which nobody needs."""
    *others, last = answer["apiKeys"]
    return {**answer, "apiKeys": [*others, {**last, "minVersion": last["maxVersion"] + 1}]}


_FAULTS: Mapping[tuple[str, str], Callable[[Body], Body]] = {
    (RENAMING, "ConsumerGroupHeartbeat"): _rename,
    (INVERTING, "ApiVersions"): _invert,
}
"""By the client ID that asks for it and the API whose answer is altered."""


def altered(schemas: Schemas, client_id: str | None, request: Request, answer: bytes) -> bytes:
    """Give the broker's answer as this client gets it: as it is, unless it asks to be wronged."""
    fault = _FAULTS.get((client_id or "", request.api.name)) if request.api else None
    if fault is None or request.api is None:
        return answer
    key, version, number = request.api.key, request.api_version, request.correlation_id or 0
    body = read_response(schemas, answer, key, version).body or {}
    return write_response(schemas, key, version, number, fault(body))
