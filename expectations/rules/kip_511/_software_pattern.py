"""The client software names and versions that a broker accepts, and their judgement (KIP-511)."""

from __future__ import annotations

from expectations.conversation.bodies import SoftwareClaim
from expectations.conversation.negotiation import Asked
from expectations.conversation.texts import RELEASED_SOFTWARE, SOFTWARE_IN_TEXT
from expectations.rules.base.rule import Judgement, Spec, conforms, violates

PATTERNS = {Spec.SHIPPED: RELEASED_SOFTWARE, Spec.TEXT: SOFTWARE_IN_TEXT}


def is_well_formed(text: str, spec: Spec) -> bool:
    """Whether a software name or version is valid in a reading."""
    return PATTERNS[spec].fullmatch(text) is not None


def is_claim_well_formed(claim: SoftwareClaim, spec: Spec) -> bool:
    """Whether both name and version are valid in a reading."""
    return is_well_formed(claim.name, spec) and is_well_formed(claim.version, spec)


def judge_text(text: str, asked: Asked, spec: Spec) -> Judgement:
    """Judge a name or version by the pattern of a reading. The context holds it as `text`."""
    if is_well_formed(text, spec):
        return conforms()
    return violates(
        expected=PATTERNS[spec].pattern,
        observed=text,
        context={"text": text, "readings": _readings_that_refuse(text)},
        subject=asked.request,
    )


def _readings_that_refuse(text: str) -> str:
    """Return which readings refuse a text that at least one of them refuses."""
    if is_well_formed(text, Spec.TEXT):
        return "released Kafka only: the KIP's text allows it"
    return "in both readings"
