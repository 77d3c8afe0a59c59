"""The pattern of client software names and versions that brokers accept (KIP-511)."""

from __future__ import annotations

import re

RELEASED = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""As released Kafka has it: a letter or digit at both ends."""
IN_TEXT = re.compile(r"[.\-a-zA-Z0-9]+")
"""As the KIP's text has it, which accepts all that released Kafka accepts."""
