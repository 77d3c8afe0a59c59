"""Alterations of a broker's responses on their way to the client, by the response's fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from decoders.codec.response import read_response, write_response
from decoders.schema.registry import Schemas


class Asked(NamedTuple):
    """The request whose response may be altered."""

    api_key: int
    api: str
    version: int


Body = dict[str, Any]
Alter = Callable[[Asked, bytes], bytes | None]
"""Takes a response, without its length, and returns what the client gets instead. None closes instead."""


def unaltered(_asked: Asked, response: bytes) -> bytes:
    """Leave a response as it is."""
    return response


def in_body(
    schemas: Schemas, change: Callable[[Body], Mapping[str, Any] | None], *apis: str, since: int = 0
) -> Alter:
    """Change the body of responses to some APIs, from a version on. `change` returns None to leave it."""

    def alter(asked: Asked, response: bytes) -> bytes:
        if asked.api not in apis or asked.version < since:
            return response
        read = read_response(schemas, response, asked.api_key, asked.version)
        changed = None if read.body is None else change(read.body)
        if changed is None or read.body_version is None:
            return response
        return write_response(schemas, asked.api_key, read.body_version, read.correlation_id or 0, changed)

    return alter


def error_code(before: int, after: int) -> Callable[[Body], Body | None]:
    """Return the change of one error code into another."""
    return lambda body: body | {"errorCode": after} if body["errorCode"] == before else None
