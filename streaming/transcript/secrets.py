"""Hides passwords, tokens, keys and configuration values in a decoded frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from decoders.frame.privacy import NO_GUARD, guards_of
from decoders.schema.registry import Schemas
from streaming.transcript.frame import DecodedFrame

HIDDEN: Final = "(hidden)"


def hide_secrets(schemas: Schemas, frame: DecodedFrame) -> None:
    """Replace the secrets in a frame's body by HIDDEN, apart from empty ones.

    What applications tell each other, such as a member's metadata, is not kept by the feeder, but is shown.
    """
    if frame.body is None or frame.api_key is None:
        return
    guards = guards_of(schemas)
    by_key = guards.requests if frame.kind == "request" else guards.responses
    for path in by_key.get(frame.api_key, NO_GUARD).hidden:
        _hide(frame.body, path.split("."))


def _hide(value: Any, path: Sequence[str]) -> None:
    if isinstance(value, list):
        for element in value:
            _hide(element, path)
    elif isinstance(value, dict):
        name, *rest = path
        if rest:
            _hide(value.get(name), rest)
        elif isinstance(value.get(name), list):
            value[name] = [element and HIDDEN for element in value[name]]
        elif value.get(name):
            value[name] = HIDDEN
