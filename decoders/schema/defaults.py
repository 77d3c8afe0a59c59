"""The default of a field, parsed from its schema."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from decoders.schema.model import INTEGER_RANGES, PRIMITIVE_TYPES, ZERO_UUID

_TRUTH: Final = {"": False, "false": False, "true": True}


def parse_default(type_: str, stated: Any, *, always_nullable: bool) -> Any:
    """Return the value of an absent field of a type, in the form that the codec uses.

    `stated` is the schema's `default`: a string, a number, a boolean, or None if there is none.
    `always_nullable` says that every version of the field allows null. Raises ValueError.
    """
    if stated == "null":
        if not always_nullable:
            raise ValueError("the default is null, but not every version allows null")
        return None
    if type_ not in PRIMITIVE_TYPES or type_ in ("bytes", "records"):
        return _empty(type_, stated)
    try:
        return _primitive(type_, "" if stated is None else str(stated))
    except (KeyError, ValueError, binascii.Error):
        raise ValueError(f"default {stated!r} is not a {type_}") from None


def _empty(type_: str, stated: Any) -> Any:
    if stated not in (None, ""):
        raise ValueError(f"default {stated!r}: a field of type {type_} has none but null")
    if type_ == "records":
        return None
    if type_ == "bytes":
        return ""
    return [] if type_.startswith("[]") else {}


def _primitive(type_: str, text: str) -> Any:
    if type_ == "string":
        return text
    if type_ == "uuid":
        return _uuid(text or ZERO_UUID)
    if type_ == "bool":
        return _TRUTH[text.lower()]
    if type_ == "float64":
        return float(text or 0)
    value, (lowest, highest) = int(text or "0", 0), INTEGER_RANGES[type_]
    if not lowest <= value <= highest:
        raise ValueError
    return value


def _uuid(text: str) -> str:
    content = base64.b64decode(f"{text}==", b"-_", validate=True)
    if base64.urlsafe_b64encode(content).decode() != f"{text}==":
        raise ValueError
    return text
