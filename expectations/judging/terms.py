"""The terms of judging: rules, names of listeners, known brokers and the users' decisions on findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.finding import Finding
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES


def as_found(finding: Finding) -> Finding:
    """Return a finding unchanged: the default for users without decisions."""
    return finding


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules to judge by, in their readings, and the users' settings for brokers and findings.

    `listeners` maps server addresses to names, `brokers` maps them to cluster and node. `decide` applies the
    users' decisions to a finding: another level, or suppression. It is called when a finding is counted or
    published, so the stored state of a connection does not depend on it. `pseudonyms` replace identities
    before anything is judged; None leaves them plain.
    """

    rules: Sequence[Rule] = RULES
    listeners: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, ClusterDescription] = field(default_factory=dict)
    decide: Callable[[Finding], Finding] = as_found
    pseudonyms: Pseudonyms | None = None

    def named(self, columns: WindowColumns) -> WindowColumns:
        """Return windows with the names of identities by which they are judged: pseudonyms or plain ones."""
        if self.pseudonyms is None:
            return columns
        return WindowColumns.of(self.pseudonyms.windows(columns.windows()))

    def listener(self, server: str) -> str:
        """Return the configured name of a server address, or the address."""
        return self.listeners.get(server, server)
