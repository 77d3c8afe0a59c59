"""Observations: a statement together with its occurrence, as rules read it."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar

import msgspec

from decoders.frame.record import Closing, Direction, Kind, Pairing
from decoders.schema.header_versions import Layout
from expectations.conversation.bodies import Body
from expectations.conversation.occurrence import Evidence, Occurrence
from expectations.conversation.statement import Failure, Statement


def _stated(name: str) -> Any:
    """Read an attribute of the statement. A property around `attrgetter` costs no Python frame."""
    return property(attrgetter(f"statement.{name}"))


def _occurred(name: str) -> Any:
    """Read an attribute of the occurrence."""
    return property(attrgetter(f"occurrence.{name}"))


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was said and when. The attributes of both parts are read by their own names."""

    statement: Statement
    occurrence: Occurrence

    kind: ClassVar[Kind] = _stated("kind")
    direction: ClassVar[Direction] = _stated("direction")
    pairing: ClassVar[Pairing] = _stated("pairing")
    closing: ClassVar[Closing] = _stated("closing")
    mid_stream: ClassVar[bool] = _stated("mid_stream")
    settled: ClassVar[bool] = _stated("settled")
    known: ClassVar[bool] = _stated("known")
    cut: ClassVar[bool] = _stated("cut")
    api_key: ClassVar[int] = _stated("api_key")
    api_version: ClassVar[int] = _stated("api_version")
    header_version: ClassVar[int | None] = _stated("header_version")
    client_id: ClassVar[str | None] = _stated("client_id")
    client_instance_id: ClassVar[bytes | None] = _stated("client_instance_id")
    failure: ClassVar[Failure | None] = _stated("failure")
    body: ClassVar[Body | None] = _stated("body")
    oddity: ClassVar[Failure | None] = _stated("oddity")
    errors: ClassVar[tuple[int, ...] | None] = _stated("errors")
    layout: ClassVar[Layout | None] = _stated("layout")
    other_header: ClassVar[int | None] = _stated("other_header")
    expects_response: ClassVar[bool] = _stated("expects_response")
    size: ClassVar[int] = _stated("size")
    unproven: ClassVar[bool] = _stated("unproven")
    encoding: ClassVar[Failure | None] = _stated("encoding")
    named_port: ClassVar[bool] = _stated("named_port")
    informed: ClassVar[bool] = _stated("informed")
    draft_instance_id: ClassVar[bytes | None] = _stated("draft_instance_id")
    responded: ClassVar[bool] = _stated("responded")
    has_header: ClassVar[bool] = _stated("has_header")
    is_matched: ClassVar[bool] = _stated("is_matched")
    is_clean: ClassVar[bool] = _stated("is_clean")
    uses_header_v3: ClassVar[bool] = _stated("uses_header_v3")
    instance_id: ClassVar[bytes | None] = _stated("instance_id")

    first_sequence: ClassVar[int] = _occurred("first_sequence")
    last_sequence: ClassVar[int] = _occurred("last_sequence")
    first_captured_at: ClassVar[int] = _occurred("first_captured_at")
    last_captured_at: ClassVar[int] = _occurred("last_captured_at")
    previous_captured_at: ClassVar[int] = _occurred("previous_captured_at")
    evidence: ClassVar[Evidence] = _occurred("evidence")
    count: ClassVar[int] = _occurred("count")
    correlation_id: ClassVar[int | None] = _occurred("correlation_id")
    paired_sequence: ClassVar[int] = _occurred("paired_sequence")
