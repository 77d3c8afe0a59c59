"""Identifiers as Kafka writes them: 16 bytes as unpadded URL-safe base64, the form of its logs."""

from __future__ import annotations

import base64

ZERO = "AAAAAAAAAAAAAAAAAAAAAA"


def identifier_text(identifier: bytes) -> str:
    """Write a UUID's 16 bytes as Kafka's `Uuid.toString` does: 22 characters."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()
