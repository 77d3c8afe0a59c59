"""The terms of judging: what findings go by beside what was said on the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from expectations.conversation.bodies import ClusterDescription
from expectations.judging.finding import Finding
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES


def as_found(finding: Finding) -> Finding:
    """Leave a finding as its rule made it: nobody has decided otherwise."""
    return finding


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules to judge by, in their readings, and what users say of brokers and findings.

    `listeners` names server addresses, `brokers` says which cluster and node stand behind one. `decide`
    gives a finding as users want it told: at another level, or suppressed. It is asked when a finding is
    counted or published, and what is kept of a connection does not depend on it.
    """

    rules: Sequence[Rule] = RULES
    listeners: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, ClusterDescription] = field(default_factory=dict)
    decide: Callable[[Finding], Finding] = as_found

    def listener(self, server: str) -> str:
        """Name a listener as configured, or by its address."""
        return self.listeners.get(server, server)
