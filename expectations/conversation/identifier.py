"""UUIDs as text: Kafka writes their 16 bytes as unpadded URL-safe base64."""

from __future__ import annotations

import base64
import functools
import re

ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
RESERVED = (bytes(16), bytes(15) + b"\x01")
"""The UUIDs that Kafka reserves: zero and one."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{22}(==)?")
_TO_STANDARD = str.maketrans("-_", "+/")
_KAFKAS = re.compile(r"[A-Za-z0-9_-]{22}")
_HEX = re.compile(r"[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}")


@functools.lru_cache(maxsize=1_000)
def identifier_text(identifier: bytes) -> str:
    """Return a UUID's 16 bytes as Kafka's `Uuid.toString` writes them: 22 characters."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()


@functools.lru_cache(maxsize=100_000)
def identifier_bytes(text: str) -> bytes | None:
    """Parse a UUID in any form that clients write: base64 of either alphabet, padded or not, or hex.

    Returns None for any other text.
    """
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    if _BASE64.fullmatch(text):
        return base64.b64decode(text[:22].translate(_TO_STANDARD) + "==")
    return None


def is_kafkas_form(text: str) -> bool:
    """Return whether text has the length and the alphabet of Kafka's form."""
    return _KAFKAS.fullmatch(text) is not None
