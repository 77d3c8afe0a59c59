"""The tally of one step: adds up what was judged and counted, and becomes the step's report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeGuard

import numpy as np

from decoders.frame.record import Kind
from decoders.protocol import NO_ERROR
from decoders.schema.registry import Api
from expectations.conversation.bodies import Advertisement, SoftwareClaim
from expectations.conversation.observation import ConnectionKey, Statement
from expectations.conversation.progress import ApiVersion
from expectations.identity.claim import Claim, united
from expectations.identity.server_claim import (
    LONGEST_ADVERTISEMENT,
    answered_claim,
    is_remembered,
    kafka_claim,
)
from expectations.judging.outcome import Outcome
from streaming.judging.changes import BrokerShown
from streaming.judging.part import Part, groups
from streaming.judging.report import Report, Requests

UNKNOWN: Final = "unknown"
UNKNOWN_API: Final = "unknown-api"
REMOVED_VERSION: Final = "removed-version"
_Sent = tuple[SoftwareClaim | None, int, int]
"""The client software that sent a request, if it has said so, and the API key and version."""


class Tally:
    """Adds up outcomes by listener, and frames."""

    def __init__(self, apis: Mapping[int, Api], listener: Callable[[str], str] = str) -> None:
        """`listener` names the listener at a server's address."""
        self._apis = apis
        self._listener = listener
        self._judged: dict[str, Outcome] = {}
        self._frames: dict[tuple[int, str], int] = {}
        self._undecodable: dict[str, int] = {}
        self._requests: dict[_Sent, int] = {}
        self._advertised: dict[tuple[str, str, int], tuple[int, Advertisement]] = {}

    def add(self, outcome: Outcome, listener: str) -> None:
        """Add an outcome of the judge, of connections to a listener."""
        self._judged_at(listener).add(outcome)

    def add_checks(self, checks: Iterable[tuple[str, str]], count: int, listener: str) -> None:
        """Add each check `count` times, for connections to a listener."""
        judged = self._judged_at(listener).checks
        for check in checks:
            judged[check] = judged.get(check, 0) + count

    def count(self, part: Part, responses: ServerResponses) -> None:
        """Count the frames of a part: by API, by what sent them, and what servers said in them."""
        self._count_frames(part)
        self._count_requests(part)
        self._note_advertised(part)
        _note_answered(part, responses)

    def report(self, number: int) -> Report:
        """Return the report of bucket `number`."""
        report = Report(number, undecodable=self._undecodable)
        for listener, judged in self._judged.items():
            report.findings.extend(judged.findings)
            report.claims.extend(judged.claims)
            report.offences.extend((offence, listener, count) for offence, count in judged.offences.items())
            for at, count in judged.ranges_changes.items():
                report.ranges_changes[at] = report.ranges_changes.get(at, 0) + count
            for (rule, ruling), count in judged.checks.items():
                checks = report.checks_at.setdefault(listener, {})
                checks.setdefault(rule, {})[ruling] = count
        report.claims = united(report.claims)
        for (api_key, kind), count in self._frames.items():
            api = self._apis.get(api_key)
            kinds = report.frames.setdefault(api.name if api else UNKNOWN, {})
            kinds[kind] = kinds.get(kind, 0) + count
        report.requests = self._reported_requests()
        report.brokers = [
            (self._shown(cluster, server, advertised), at)
            for (cluster, server, _), (at, advertised) in self._advertised.items()
        ]
        return report

    def _judged_at(self, listener: str) -> Outcome:
        judged = self._judged.get(listener)
        if judged is None:
            judged = self._judged[listener] = Outcome()
        return judged

    def _count_frames(self, part: Part) -> None:
        sums = np.zeros(len(part.statements), np.int64)
        np.add.at(sums, part.templates, part.values("count"))
        for statement, count in zip(part.statements, sums.tolist(), strict=True):
            if statement.kind is Kind.REQUEST or statement.kind is Kind.RESPONSE:
                kind = "request" if statement.kind is Kind.REQUEST else "response"
                key = statement.api_key, kind
                self._frames[key] = self._frames.get(key, 0) + count
            if reason := self._why_undecodable(statement):
                self._undecodable[reason] = self._undecodable.get(reason, 0) + count

    def _why_undecodable(self, statement: Statement) -> str:
        """Return why a frame cannot be decoded, "" if it can."""
        if statement.failure is not None:
            return statement.failure.reason
        if statement.known:
            return ""
        api = self._apis.get(statement.api_key)
        return REMOVED_VERSION if api and api.is_removed(statement.api_version) else UNKNOWN_API

    def _count_requests(self, part: Part) -> None:
        numbers: dict[SoftwareClaim | None, int] = {}
        of_window = np.array([numbers.setdefault(each, len(numbers)) for each in part.software], np.int64)
        named = list(numbers)
        requests = part.of([statement.kind is Kind.REQUEST for statement in part.statements]) & part.is_new
        (at,) = np.nonzero(requests)
        counts = part.values("count")[at]
        for (software, template), places in groups(of_window[part.windows[at]], part.templates[at]):
            statement = part.statements[template]
            sent = named[software], statement.api_key, statement.api_version
            self._requests[sent] = self._requests.get(sent, 0) + int(counts[places].sum())

    def _note_advertised(self, part: Part) -> None:
        """Note what servers advertised. The latest counts, by response version."""
        shown = part.of([is_advertised(each.body) and each.is_matched for each in part.statements])
        (at,) = np.nonzero(shown & part.is_new)
        servers, times = part.columns.server_of[part.windows[at]], part.values("last_captured_at")[at]
        for (place, template), places in groups(servers, part.templates[at]):
            cluster, server, _ = part.columns.servers[place]
            advertised, latest = part.statements[template].body, int(times[places].max())
            assert isinstance(advertised, Advertisement)
            key = cluster, server, advertised.body_version
            known = self._advertised.get(key)
            if known is None or (known[0], _order(known[1])) < (latest, _order(advertised)):
                self._advertised[key] = latest, advertised

    def _reported_requests(self) -> list[Requests]:
        sums: dict[tuple[int, int, str | None, bool], int] = {}
        for (software, api_key, api_version), count in self._requests.items():
            named = (software.name, software.gives_ids) if software else (None, False)
            key = api_key, api_version, *named
            sums[key] = sums.get(key, 0) + count
        return [Requests(*key, count) for key, count in sums.items()]

    def _shown(self, cluster: str, server: str, advertised: Advertisement) -> BrokerShown:
        ranges = tuple(sorted(advertised.ranges)[:LONGEST_ADVERTISEMENT])
        features = advertised.supported_features, advertised.finalized_features
        return BrokerShown(
            cluster, self._listener(server), server, advertised.body_version, ranges, *features
        )


def is_advertised(body: object) -> TypeGuard[Advertisement]:
    """Whether a body is an ApiVersions response that holds the ranges of a server."""
    return isinstance(body, Advertisement) and body.error_code == NO_ERROR


def _note_answered(part: Part, responses: ServerResponses) -> None:
    """Note when servers first responded to API versions that they are not known to respond to."""
    answered = part.of(
        [each.is_matched and is_remembered(each.api_key, each.api_version) for each in part.statements]
    )
    (at,) = np.nonzero(answered & part.is_new)
    windows, times = part.windows[at], part.values("first_captured_at")[at]
    for (place, template), places in groups(part.columns.server_of[windows], part.templates[at]):
        statement, server = part.statements[template], part.columns.servers[place]
        version = statement.api_key, statement.api_version
        if version not in responses.known(server):
            first = min(np.unique(windows[places]).tolist(), key=part.columns.id)
            key: ConnectionKey = part.columns.key(first)
            responses.add(key, {version: int(times[places].min())})


def _order(advertised: Advertisement) -> tuple[object, ...]:
    """Break ties between advertisements of one moment, whatever the order of arrival."""
    return advertised.ranges, advertised.supported_features, advertised.finalized_features


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

    def known(self, server: tuple[str, str, int]) -> set[ApiVersion]:
        """Return the API versions that a server responded to in earlier batches.

        The server is a cluster, an address, and a run of the feeder, which makes no difference.
        """
        return self._known.get(_name(*server[:2]), set())

    def add(self, key: ConnectionKey, answered: Mapping[ApiVersion, int]) -> None:
        """Add the times at which API versions were first answered on a connection."""
        name = _name(key.cluster, key.server)
        known = self._known.get(name, set())
        for version, at in answered.items():
            if version in known:
                continue
            first = self._first.get(name, {})
            if version in first or len(known) + len(first) < ANSWERED_LIMIT:
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
