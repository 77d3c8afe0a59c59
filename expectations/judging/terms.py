"""The terms of judging: rules, names of listeners, known brokers and the users' decisions on findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from decoders.frame.record import host_of, workload_of
from expectations.conversation.bodies import ClusterDescription
from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.conversation.conversation import Conversation
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.finding import Finding
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES


class ClientNames(NamedTuple):
    """What an owner is found by: the client's address without its port, and its names as far as known."""

    host: str
    client_id: str | None
    software_name: str | None
    principal: str | None = None
    workload: str | None = None


def names_of(conversation: Conversation) -> ClientNames:
    """Return what is known of a connection's client."""
    return ClientNames(
        host_of(conversation.client),
        conversation.client_id,
        conversation.software.name if conversation.software else None,
        conversation.principal,
        workload_of(conversation.placement),
    )


OwnerOf = Callable[[ClientNames], str | None]
"""Returns the owner of a client, None if it has none."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules to judge by, in their readings, and the users' settings for brokers and findings.

    `listeners` maps server addresses to names, `brokers` maps them to cluster and node. `decide` applies the
    users' decisions to a finding, another level or suppression; None if they made none. It is called when a
    finding is counted or published, so the stored state of a connection does not depend on it. `owner_of`
    tells the owner of a client; None if the users name no owners. `pseudonyms` replace identities before
    anything is judged; None leaves them plain.
    """

    rules: Sequence[Rule] = RULES
    listeners: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, ClusterDescription] = field(default_factory=dict)
    decide: Callable[[Finding], Finding] | None = None
    owner_of: OwnerOf | None = None
    pseudonyms: Pseudonyms | None = None

    def decided(self, finding: Finding) -> Finding:
        """Return a finding as users see it: with its owner, and by their decisions."""
        if self.owner_of is not None:
            names = ClientNames(
                host_of(finding.client),
                finding.client_id,
                finding.client_software_name,
                finding.principal or None,
                finding.workload or None,
            )
            finding = msgspec.structs.replace(finding, owner=self.owner_of(names))
        return self.decide(finding) if self.decide else finding

    def owner(self, names: ClientNames) -> str | None:
        """Return the owner of a client, None if nobody is known."""
        return self.owner_of(names) if self.owner_of else None

    def named(self, columns: WindowColumns) -> WindowColumns:
        """Return windows with the names of identities by which they are judged: pseudonyms or plain ones."""
        if self.pseudonyms is None:
            return columns
        return WindowColumns.of(self.pseudonyms.windows(columns.windows()))

    def listener(self, server: str) -> str:
        """Return the configured name of a server address, or the address."""
        return self.listeners.get(server, server)
