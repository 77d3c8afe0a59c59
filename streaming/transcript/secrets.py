"""Hides passwords, tokens, keys and configuration values in a decoded frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from decoders.frame.cutting import GUARDED_REQUESTS, GUARDED_RESPONSES
from streaming.transcript.frame import DecodedFrame

HIDDEN: Final = "(hidden)"
SECRET_APIS: Final = frozenset(
    {
        "AlterConfigs",
        "AlterUserScramCredentials",
        "CreateDelegationToken",
        "CreateTopics",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "Envelope",
        "ExpireDelegationToken",
        "IncrementalAlterConfigs",
        "RenewDelegationToken",
        "SaslAuthenticate",
    }
)
"""The APIs whose guarded fields are secrets. Those of other APIs are data that is merely not kept."""
_GUARDED: Final = {"request": GUARDED_REQUESTS, "response": GUARDED_RESPONSES}


def hide_secrets(frame: DecodedFrame) -> None:
    """Replace the secrets in a frame's body by HIDDEN, apart from empty ones."""
    guard = _GUARDED.get(frame.kind, {}).get(frame.api or "")
    if guard is not None and frame.api in SECRET_APIS and frame.body is not None:
        for path in guard.blanked:
            _hide(frame.body, path.split("."))


def _hide(value: Any, path: Sequence[str]) -> None:
    if isinstance(value, list):
        for element in value:
            _hide(element, path)
    elif isinstance(value, dict):
        name, *rest = path
        if rest:
            _hide(value.get(name), rest)
        elif value.get(name):
            value[name] = HIDDEN
