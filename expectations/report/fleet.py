"""The fleet: what each client software did, recorded connection by connection while a source is judged.

Beside the verdicts it records facts that are worth knowing but are no offence: connections without
ApiVersions, ApiVersions below the version that names the software, member IDs that are not random
UUIDs, and the API versions in use beside those that brokers offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from expectations.conversation.conversation import Conversation
from expectations.conversation.observation import Observation
from expectations.report.activity import Activity
from expectations.report.broker import Broker, Ranges
from expectations.report.client import Client, Software, software_order
from expectations.report.coverage import Checks
from expectations.report.usage import ClientUsage, UsageByClient, UsedVersions
from expectations.rules.base.rule import Rule


class Fleet:
    """The activity of open connections, one by one, and of closed ones in sum by client software."""

    def __init__(self, rules: Iterable[Rule], api_names: Mapping[int, str]) -> None:
        self._rules = list(rules)
        self._api_names = api_names
        self._open: dict[bytes, tuple[Conversation, Activity, UsedVersions]] = {}
        self._software: dict[bytes, Software] = {}
        self._activities: dict[Software, Activity] = {}
        self._brokers: dict[tuple[str, str], Broker] = {}
        self._usage = UsageByClient()

    def record(self, conversation: Conversation, observations: Iterable[Observation], checks: Checks) -> None:
        """Record observations of a connection, already processed by its conversation, and their verdicts."""
        begun = conversation, Activity(), UsedVersions()
        _, activity, usage = self._open.setdefault(conversation.connection, begun)
        for observation in observations:
            activity.record(observation)
            usage.record(observation)
        activity.count(checks)
        if conversation.advertised is not None:
            activity.offer(conversation.advertised.ranges)
            self._record_broker(conversation, conversation.advertised.ranges)
        if conversation.closed:
            self._conclude(conversation.connection)

    def record_verdicts(self, verdicts: Iterable[tuple[bytes, str, str]]) -> None:
        """Record verdicts on what connections share, each as (connection, rule id, verdict)."""
        for connection, rule_id, verdict in verdicts:
            checks = {(rule_id, verdict): 1}
            if connection in self._open:
                self._open[connection][1].count(checks)
            else:
                software = self._software.get(connection, (None, None))
                self._activities.setdefault(software, Activity()).count(checks)

    def finish(self) -> None:
        """Complete the connections that are still open: the source has ended."""
        for connection in list(self._open):
            self._conclude(connection)

    def clients(self) -> list[Client]:
        """Return every client software, ordered by name, the unknown last."""
        return [
            activity.client(software, self._rules, self._api_names)
            for software, activity in sorted(
                self._activities.items(), key=lambda item: software_order(item[0])
            )
        ]

    def brokers(self) -> list[Broker]:
        """Return every broker that advertised versions, ordered by cluster and address."""
        return [self._brokers[place] for place in sorted(self._brokers)]

    def usage(self) -> list[ClientUsage]:
        """Return what each client used, by software and client ID."""
        return self._usage.clients()

    def _record_broker(self, conversation: Conversation, ranges: Ranges) -> None:
        place = (conversation.cluster, conversation.server)
        self._brokers[place] = Broker(*place, ranges)

    def _conclude(self, connection: bytes) -> None:
        conversation, activity, usage = self._open.pop(connection)
        activity.conclude(conversation)
        self._usage.add(conversation, usage)
        claimed = conversation.software
        software = (claimed.name, claimed.version) if claimed else (None, None)
        self._software[connection] = software
        self._activities.setdefault(software, Activity()).add(activity)
