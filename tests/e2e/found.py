"""What tests compare of findings: their likenesses, and those that one connection shows by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from expectations.judging.finding import Finding
from expectations.rules.base.rule import IdentityRule
from expectations.rules.catalogue import rule_named
from streaming.broker.topics import FindingsTopic

Likenesses = Counter[tuple[object, ...]]


def likenesses(findings: Iterable[Finding]) -> Likenesses:
    """Return what findings have in common whatever way their frames came."""
    return Counter(finding.likeness() for finding in findings)


def found_so_far(topic: FindingsTopic) -> Likenesses:
    """Read what is new in a topic, and return the likenesses of all its findings."""
    topic.poll(0.5)
    return likenesses(topic.findings.values())


def of_one_connection(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that one connection shows; those of shared identities settle later."""
    return [finding for finding in findings if not isinstance(rule_named(finding.rule), IdentityRule)]
