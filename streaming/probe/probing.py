"""Asks a broker under test for each duty, and has the exchange judged by the rules as `check` does."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from decoders.wire.frame_detector import OtherProtocol
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType, Packet
from expectations.identity.known_ranges import ENOUGH_CLOSES
from expectations.judging.terms import Terms
from expectations.report.duties import DutyReport, DutyState, judged
from expectations.rules.base.rule import Role
from streaming.check.examination import examine
from streaming.probe.client import ConnectionClosedError, negotiate
from streaming.probe.connection import NotOfferedError, ProbingClient, Target, Trouble, UnansweredError
from streaming.probe.duties import Duty
from streaming.probe.plays import Play
from streaming.settings.address import address_text
from streaming.user_error import UserError


class Probing:
    """One probe of a broker. `packets` are all that was recorded so far."""

    def __init__(self, target: Target, terms: Terms) -> None:
        self._target, self._terms = target, terms
        self.packets: list[Packet] = []
        self._opening: list[Packet] = []
        self._opener = ""

    def open(self) -> None:
        """Ask for the versions. Raises UserError if there is no Kafka, or if it refuses the login."""
        address = address_text(*self._target.address)
        try:
            with self._target.connect(self._opening.extend) as client:
                self._opener = client.address
                self._ask_for_versions(client)
        except UnansweredError as error:
            raise UserError(f"cannot probe {address}: {error}") from error
        finally:
            self.packets += self._opening
        if client.protocol is OtherProtocol.TLS:
            raise UserError(f"{address} expects TLS: set kafka.security.protocol in the configuration")
        if client.protocol is not OtherProtocol.NOISE:
            raise UserError(f"cannot probe {address}: it speaks {client.protocol}, not Kafka")
        if client.trouble == Trouble.SILENT and not self._target.received:
            raise UserError(f"cannot probe {address}: {Trouble.SILENT}; name a listener of Kafka")
        if client.trouble == Trouble.LOGIN:
            raise UserError(f"{address} refused the login: correct kafka.sasl.* in the configuration")

    def _ask_for_versions(self, client: ProbingClient) -> None:
        with suppress(ConnectionClosedError):
            client.log_in()
            listed = negotiate(client, 0).get("apiKeys", ())
            names = self._target.schemas.api_names
            self._target.ranges = {
                names[entry["apiKey"]]: (entry["minVersion"], entry["maxVersion"])
                for entry in listed
                if entry["apiKey"] in names
            }

    def run(self, duties: Iterable[Duty], *, writes: bool) -> Iterator[DutyReport]:
        """Ask for each duty; those that join groups only with `writes`."""
        for duty in duties:
            unjudged = DutyReport(duty.name, duty.says, duty.rules, DutyState.UNDECIDED)
            if duty.writes and not writes:
                yield _because(unjudged, "not asked: it joins a group; --writes asks for it")
            elif self._target.is_mute:
                yield _because(unjudged, "not asked: the broker responds to nothing")
            else:
                yield self._ask(duty, unjudged)

    def _ask(self, duty: Duty, unjudged: DutyReport) -> DutyReport:
        packets: list[Packet] = []
        troubles, lacking = [], []
        for play in duty.plays:
            try:
                troubles += self._play(duty, play, packets)
            except NotOfferedError as error:
                lacking.append(f"the broker does not offer {error}")
            if self._target.is_mute:
                break
        self.packets += packets
        if len(lacking) == len(duty.plays) and not self._target.ranges:
            return _because(unjudged, "the broker listed no versions")
        if len(lacking) == len(duty.plays):
            return _because(unjudged, lacking[0], DutyState.NOT_OFFERED)
        return self._judge(unjudged, packets, troubles[0] if troubles else "")

    def _play(self, duty: Duty, play: Play, packets: list[Packet]) -> list[str]:
        """Play, and again if the broker closes, since one close proves nothing. Returns what went wrong."""
        for _ in range(ENOUGH_CLOSES):
            try:
                with self._target.connect(packets.extend) as client, suppress(ConnectionClosedError):
                    if not duty.before_login:
                        client.log_in()
                    play(client)
            except UnansweredError as error:
                return [str(error)]
            if client.trouble != Trouble.CLOSED:
                break
        if client.trouble:
            return [f"{client.trouble} after {client.asked}"]
        if client.was_closed and not self._serves():
            return [f"the broker serves nobody any more after {client.asked}"]
        return []

    def _serves(self) -> bool:
        """Whether the broker responds to another client."""
        try:
            with self._target.connect(lambda _packets: None) as client:
                return bool(negotiate(client, 0))
        except ConnectionClosedError:
            return False

    def _judge(self, unjudged: DutyReport, packets: list[Packet], trouble: str) -> DutyReport:
        """Judge what was recorded of one duty, together with what the broker first listed."""
        with tempfile.TemporaryDirectory(prefix="kipwatch-probe-") as folder:
            path = Path(folder, "duty.pcap")
            with path.open("wb") as stream:
                writer = PcapWriter(stream, LinkType.ETHERNET)
                for packet in (*self._opening, *packets):
                    writer.write(packet)
            examination = examine(path, self._target.schemas, [self._target.port], self._terms)
        findings = [
            finding
            for finding in examination.findings
            if finding.client != self._opener or finding.rule in unjudged.rules
        ]
        return judged(unjudged, Role.BROKER, findings, examination.coverage, trouble)


def _because(unjudged: DutyReport, why: str, state: DutyState = DutyState.UNDECIDED) -> DutyReport:
    return DutyReport(unjudged.duty, unjudged.says, unjudged.rules, state, why)
