"""The tally of one step: adds up what was judged and counted, and becomes the step's report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from decoders.frame.record import Kind
from decoders.protocol import NO_ERROR
from expectations.conversation.bodies import Advertisement, SoftwareClaim
from expectations.conversation.statement import Statement
from expectations.conversation.window import ConnectionKey, Window
from expectations.identity.server_claim import LONGEST_ADVERTISEMENT
from expectations.judging.outcome import Outcome
from streaming.judging.changes import BrokerShown
from streaming.judging.report import Report, Requests

UNKNOWN: Final = "unknown"

Check = tuple[str, str]
"""A rule's id and a verdict."""
Sent = tuple[SoftwareClaim | None, int, int]
"""The client software that sent a request, if it has said so, and the API key and version."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameChecks:
    """The checks that each frame of an observation counts under. Compared by identity, which is fast."""

    api_key: int
    api_version: int
    kind: Kind
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, eq=False)
class OpeningChecks:
    """What each opening of one form counts as: its frames by API key and kind, its requests, its checks."""

    frames: Mapping[tuple[int, Kind], int]
    requests: Mapping[Sent, int]
    checks: Mapping[Check, int]


class Tally:
    """Adds up outcomes by listener, frames, cached checks, and requests by client software."""

    def __init__(self, api_names: Mapping[int, str]) -> None:
        self._api_names = api_names
        self._judged: dict[str, Outcome] = {}
        self._frames: dict[tuple[int, str], int] = {}
        self._undecodable: dict[str, int] = {}
        self._cached: dict[tuple[str, SoftwareClaim | None], dict[FrameChecks, int]] = {}
        self._openings: dict[tuple[str, OpeningChecks], int] = {}
        self._requests: dict[Sent, int] = {}
        self._advertised: dict[tuple[str, str, int], tuple[int, str, Advertisement]] = {}
        self.stored: dict[tuple[int, int], dict[FrameChecks, int]] = {}
        """The cached checks of stored connections, by the numbers of server and software in their layout."""

    def add(self, outcome: Outcome, listener: str) -> None:
        """Add an outcome of the judge, of connections to a listener."""
        judged = self._judged.get(listener)
        if judged is None:
            judged = self._judged[listener] = Outcome()
        judged.add(outcome)

    def cached(self, listener: str, software: SoftwareClaim | None) -> dict[FrameChecks, int]:
        """Return the counts of cached checks of a client software at a listener, to add to them."""
        return self._cached.setdefault((listener, software), {})

    def count_opening(self, checks: OpeningChecks, listener: str) -> None:
        """Count the frames, requests and checks of an opening."""
        key = listener, checks
        self._openings[key] = self._openings.get(key, 0) + 1

    def count_requests(self, window: Window, software: SoftwareClaim | None, judged_until: int) -> None:
        """Count the requests of a window, except those up to a sequence, which were judged before.

        `software` is that of the connection before the window. Whoever names it in a request has sent this
        request, too.
        """
        for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
            statement = window.statements[number]
            if statement.kind is Kind.REQUEST and occurrence.last_sequence > judged_until:
                software = named_by(statement, software)
                self._add_requests((software, statement.api_key, statement.api_version), occurrence.count)

    def count_frames(self, window: Window) -> None:
        """Count the frames of a window, and those of them that could not be decoded."""
        for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
            statement = window.statements[number]
            if statement.kind is Kind.REQUEST or statement.kind is Kind.RESPONSE:
                self._count_frames(statement.api_key, statement.kind, occurrence.count)
            if statement.failure is not None:
                self._count_undecodable(statement.failure.reason, occurrence.count)
            elif not statement.known:
                self._count_undecodable("unknown-api", occurrence.count)

    def show_advertised(self, window: Window, listener: str) -> None:
        """Note what the server of a window advertised in it."""
        for number, occurrence in zip(window.numbers, window.occurrences, strict=True):
            statement = window.statements[number]
            if is_advertised(statement.body) and statement.is_matched:
                self.show(window.connection, listener, statement.body, occurrence.last_captured_at)

    def show(self, key: ConnectionKey, listener: str, advertised: Advertisement, at: int) -> None:
        """Note what a connection's server advertised at a time. The latest counts, by response version."""
        server = key.cluster, key.server, advertised.body_version
        known = self._advertised.get(server)
        if known is None or (known[0], _order(known[2])) < (at, _order(advertised)):
            self._advertised[server] = at, listener, advertised

    def report(self, number: int) -> Report:
        """Return the report of bucket `number`."""
        report = Report(number, undecodable=self._undecodable)
        self._add_cached()
        for listener, judged in self._judged.items():
            report.findings.extend(judged.findings)
            report.claims.extend(judged.claims)
            report.offences.extend(judged.offences.items())
            for at, count in judged.ranges_changes.items():
                report.ranges_changes[at] = report.ranges_changes.get(at, 0) + count
            for (rule, verdict), count in judged.checks.items():
                checks = report.checks_at.setdefault(listener, {})
                checks.setdefault(rule, {})[verdict] = count
        for (api_key, kind), count in self._frames.items():
            kinds = report.frames.setdefault(self._api_names.get(api_key, UNKNOWN), {})
            kinds[kind] = kinds.get(kind, 0) + count
        report.requests = self._reported_requests()
        report.brokers = [
            (_shown(cluster, server, listener, advertised), at)
            for (cluster, server, _), (at, listener, advertised) in self._advertised.items()
        ]
        return report

    def _add_cached(self) -> None:
        for (listener, software), counts in self._cached.items():
            for cached, count in counts.items():
                self._count_frames(cached.api_key, cached.kind, count)
                self.add(Outcome(checks=dict.fromkeys(cached.checks, count)), listener)
                if cached.kind is Kind.REQUEST:
                    self._add_requests((software, cached.api_key, cached.api_version), count)
        for (listener, opening), times in self._openings.items():
            for (api_key, kind), count in opening.frames.items():
                self._count_frames(api_key, kind, count * times)
            for sent, count in opening.requests.items():
                self._add_requests(sent, count * times)
            checks = {check: count * times for check, count in opening.checks.items()}
            self.add(Outcome(checks=checks), listener)
        self._cached.clear()
        self._openings.clear()

    def _reported_requests(self) -> list[Requests]:
        sums: dict[tuple[int, int, str | None, bool], int] = {}
        for (software, api_key, api_version), count in self._requests.items():
            named = (software.name, software.gives_ids) if software else (None, False)
            key = api_key, api_version, *named
            sums[key] = sums.get(key, 0) + count
        return [Requests(*key, count) for key, count in sums.items()]

    def _add_requests(self, sent: Sent, count: int) -> None:
        self._requests[sent] = self._requests.get(sent, 0) + count

    def _count_frames(self, api_key: int, kind: Kind, count: int) -> None:
        key = api_key, "request" if kind is Kind.REQUEST else "response"
        self._frames[key] = self._frames.get(key, 0) + count

    def _count_undecodable(self, reason: str, count: int) -> None:
        self._undecodable[reason] = self._undecodable.get(reason, 0) + count


def named_by(statement: Statement, software: SoftwareClaim | None) -> SoftwareClaim | None:
    """Return the software of a connection after a request."""
    return statement.body if isinstance(statement.body, SoftwareClaim) else software


def is_advertised(body: object) -> TypeGuard[Advertisement]:
    """Whether a body is the answer to ApiVersions that holds the ranges of a server."""
    return isinstance(body, Advertisement) and body.error_code == NO_ERROR


def _order(advertised: Advertisement) -> tuple[object, ...]:
    """Decide between advertisements of one moment, whichever comes first."""
    return advertised.ranges, advertised.supported_features, advertised.finalized_features


def _shown(cluster: str, server: str, listener: str, advertised: Advertisement) -> BrokerShown:
    ranges = tuple(sorted(advertised.ranges)[:LONGEST_ADVERTISEMENT])
    features = advertised.supported_features, advertised.finalized_features
    return BrokerShown(cluster, listener, server, advertised.body_version, ranges, *features)
