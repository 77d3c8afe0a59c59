"""What a broker takes as a client's software name and version (KIP-511, Validation)."""

from __future__ import annotations

import re

from expectations.conversation.observation import SoftwareClaim
from expectations.rule import Spec

PATTERNS = {
    Spec.SHIPPED: re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?"),
    Spec.TEXT: re.compile(r"[.\-a-zA-Z0-9]+"),
}
"""Released Kafka demands a letter or digit at both ends, the KIP's text does not."""


def is_well_formed(text: str, spec: Spec) -> bool:
    """Whether a software name or version is valid in a reading."""
    return PATTERNS[spec].fullmatch(text) is not None


def is_claim_well_formed(claim: SoftwareClaim, spec: Spec) -> bool:
    """Whether both name and version are."""
    return is_well_formed(claim.name, spec) and is_well_formed(claim.version, spec)


def readings_that_refuse(text: str) -> str:
    """Say which readings refuse a text that at least one of them refuses."""
    if is_well_formed(text, Spec.TEXT):
        return "released Kafka only: the KIP's text allows it"
    return "in both readings"
