"""The tally of one step: adds up what was judged and counted, and becomes the step's report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from decoders.frame.record import Kind
from decoders.protocol import NO_ERROR
from decoders.schema.registry import Api
from expectations.conversation.bodies import Advertisement
from expectations.conversation.observation import ConnectionKey, Statement
from expectations.conversation.progress import ApiVersion
from expectations.identity.claim import Claim, united
from expectations.identity.packed_claims import PackedClaims
from expectations.identity.server_claim import answered_claim, is_remembered, kafka_claim
from expectations.judging.outcome import Outcome
from streaming.judging.changes import BrokerShown, ChangeCount
from streaming.judging.part import Part, Said
from streaming.judging.report import Report, Requests
from streaming.judging.usage import UsageCount

UNKNOWN: Final = "unknown"
UNKNOWN_API: Final = "unknown-api"
REMOVED_VERSION: Final = "removed-version"


class Tally:
    """Adds up outcomes by listener, and frames. `walked` and `judged` count windows.

    `walked_claims` are those of the walk. `changes` are for the archive, None without one.
    """

    def __init__(
        self,
        apis: Mapping[int, Api],
        listener: Callable[[str], str] = str,
        answered: dict[str, set[ApiVersion]] | None = None,
        *,
        archives: bool = False,
    ) -> None:
        """`listener` names the listener at a server's address.

        `answered` holds the API versions that each server is known to answer, and grows.
        """
        self.walked = self.judged = 0
        self.changes = ChangeCount(listener) if archives else None
        self._usage = UsageCount() if archives else None
        self._apis = apis
        self._listener = listener
        self.walked_claims: list[PackedClaims] = []
        self._judged = defaultdict[str, Outcome](Outcome)
        self._frames = defaultdict[str, Counter[str]](Counter)
        self._undecodable = Counter[str]()
        self._requests = Counter[tuple[int, int, str | None, bool]]()
        self._advertised: dict[tuple[str, str, int], tuple[int, Advertisement]] = {}
        self._responses = ServerResponses({} if answered is None else answered)

    def add(self, outcome: Outcome, server: str) -> None:
        """Add an outcome of the judge, of connections to a server's address."""
        self._judged_at(server).add(outcome)

    def add_checks(self, checks: Iterable[tuple[str, str]], count: int, server: str) -> None:
        """Add each check `count` times, for connections to a server's address."""
        self._judged_at(server).count_checks(checks, count)

    def count(self, part: Part) -> None:
        """Count the frames of a part: by API, by what sent them, and what servers said in them."""
        for said in part.said(by_client=self._usage is not None):
            self._count_frames(said)
            if said.is_new:
                self._count_requests(said)
                self._note_advertised(said)
                self._note_answered(said)
                if self._usage is not None:
                    self._usage.add(said, self._listener(said.address))
        if self.changes is not None:
            self.changes.add_classic(part)

    def report(self, number: int) -> Report:
        """Return the report of bucket `number`."""
        frames = {api: dict(kinds) for api, kinds in self._frames.items()}
        report = Report(number, frames=frames, undecodable=self._undecodable)
        report.walked, report.judged = self.walked, self.judged
        changes = (judged.ranges_changes for judged in self._judged.values())
        report.ranges_changes = sum(changes, Counter[str]())
        for listener, judged in self._judged.items():
            report.findings.extend(judged.findings)
            report.offences.extend(judged.offences.items())
            for (rule, ruling), count in judged.checks.items():
                checks = report.checks_at.setdefault(listener, {})
                checks.setdefault(rule, {})[ruling] = count
        report.requests = [Requests(*sent, count) for sent, count in self._requests.items()]
        report.brokers = [
            (BrokerShown.of(cluster, self._listener(server), server, advertised), at)
            for (cluster, server, _), (at, advertised) in self._advertised.items()
        ]
        if self._usage is not None and self.changes is not None:
            report.usage, report.changes = self._usage.report(), self.changes.report()
        return report

    def claims(self) -> list[Claim]:
        """Return the claims of judging, each once, and the first responses of servers.

        These responses count as known afterwards.
        """
        judged = (claim for outcome in self._judged.values() for claim in outcome.claims)
        return [*united(judged), *self._responses.claims()]

    def packed_claims(self) -> PackedClaims:
        """Return the claims of the walk and all others, packed."""
        return PackedClaims.joined([*self.walked_claims, PackedClaims.of(self.claims())])

    def _judged_at(self, server: str) -> Outcome:
        return self._judged[self._listener(server)]

    def _count_frames(self, said: Said) -> None:
        statement, count = said.statement, said.frames
        if statement.kind is Kind.REQUEST or statement.kind is Kind.RESPONSE:
            api = self._apis.get(statement.api_key)
            kind = "request" if statement.kind is Kind.REQUEST else "response"
            self._frames[api.name if api else UNKNOWN][kind] += count
        if reason := self._why_undecodable(statement):
            self._undecodable[reason] += count

    def _why_undecodable(self, statement: Statement) -> str:
        """Return why a frame cannot be decoded, "" if it can."""
        if statement.failure is not None:
            return statement.failure.reason
        if statement.known:
            return ""
        api = self._apis.get(statement.api_key)
        return REMOVED_VERSION if api and api.is_removed(statement.api_version) else UNKNOWN_API

    def _count_requests(self, said: Said) -> None:
        statement, software = said.statement, said.software
        if statement.kind is Kind.REQUEST:
            named = (software.name, software.gives_ids) if software else (None, False)
            self._requests[statement.api_key, statement.api_version, *named] += said.frames

    def _note_advertised(self, said: Said) -> None:
        """Note what a server advertised. The latest counts, by response version."""
        advertised = said.statement.body
        if not isinstance(advertised, Advertisement) or not said.statement.is_matched:
            return
        if advertised.error_code == NO_ERROR:
            key = said.cluster, said.address, advertised.body_version
            noted = int(said.values("last_captured_at").max()), advertised
            self._advertised[key] = max(noted, self._advertised.get(key, noted), key=_order)

    def _note_answered(self, said: Said) -> None:
        """Note when a server first responded to an API version that it is not known to respond to."""
        statement = said.statement
        version = statement.api_key, statement.api_version
        if not statement.is_matched or not is_remembered(*version):
            return
        if version not in self._responses.known(said.cluster, said.address):
            columns, at = said.part.columns, int(said.values("first_captured_at").min())
            first = min(said.windows.tolist(), key=columns.id)
            self._responses.add(columns.key(first), version, at)


def _order(noted: tuple[int, Advertisement]) -> tuple[object, ...]:
    """Order advertisements by time, those of one time by content: the order of arrival must not matter."""
    at, advertised = noted
    return at, advertised.ranges, advertised.supported_features, advertised.finalized_features


SERVER_LIMIT = 1_000
"""Servers whose answered API versions a bucket remembers; beyond that the oldest is forgotten."""
ANSWERED_LIMIT = 1_024
"""Answered API versions that are remembered of one server. Kafka has 600; a stranger's server has any."""


class ServerResponses:
    """The API versions to which servers responded in one batch. `known` holds earlier ones, by server."""

    def __init__(self, known: dict[str, set[ApiVersion]]) -> None:
        self._known = known
        self._first: dict[str, dict[ApiVersion, int]] = {}
        self._keys: dict[str, ConnectionKey] = {}

    def known(self, cluster: str, server: str) -> set[ApiVersion]:
        """Return the API versions that a server responded to in earlier batches."""
        return self._known.get(_name(cluster, server), set())

    def add(self, key: ConnectionKey, version: ApiVersion, at: int) -> None:
        """Add the time at which an API version was first answered on a connection."""
        name = _name(key.cluster, key.server)
        known, first = self._known.get(name, set()), self._first.get(name, {})
        if version in known or (version not in first and len(known) + len(first) >= ANSWERED_LIMIT):
            return
        # The claim names the same connection, whichever was judged first.
        self._keys[name] = min(key, self._keys.get(name, key), key=lambda each: each.id)
        first[version] = min(at, first.get(version, at))
        self._first[name] = first

    def claims(self) -> Iterator[Claim]:
        """Claim each first response, and that a new server speaks Kafka; then they are known."""
        for name, first in self._first.items():
            key = self._keys[name]
            if name not in self._known:
                yield kafka_claim(key)
            self._known.setdefault(name, set()).update(first)
            for (api_key, api_version), at in sorted(first.items()):
                yield answered_claim(key.cluster, key.server, api_key, api_version, at)
        while len(self._known) > SERVER_LIMIT:
            del self._known[next(iter(self._known))]


def _name(cluster: str, server: str) -> str:
    return f"{cluster}\0{server}"
