"""The report of one step of a bucket, which the driver publishes.

Reports travel compressed: the driver holds those of a whole batch, and strangers decide how much there is to
report.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from expectations.identity.packed_claims import PackedClaims
from expectations.judging.finding import Finding
from expectations.judging.outcome import Offence
from streaming.judging.bucket_input import Quarantined
from streaming.judging.changes import BrokerShown, Changes
from streaming.judging.usage import Usage
from streaming.state.packing import compress, decompress

TENTH: Final = 100_000_000
"""Nanoseconds in a tenth of a second, the unit in which records are counted by capture time."""


class OpenConnections(msgspec.Struct, frozen=True, array_like=True):
    """How many connections a client software has open to a listener (KIP-511's gauge).

    Name and version are None of connections that said neither.
    """

    software_name: str | None
    software_version: str | None
    listener: str
    count: int


class Requests(msgspec.Struct, frozen=True, array_like=True):
    """How many requests of an API version connections of a client software sent.

    `gives_ids` says whether their ApiVersions request names the broker that they mean to reach (KIP-1242).
    """

    api_key: int
    api_version: int
    software_name: str | None
    gives_ids: bool
    count: int


class Report(msgspec.Struct):
    """What was found, counted and is open.

    `frames` counts by API name and kind, `undecodable` by reason, `checks_at` by listener, rule and ruling.
    `requests` are counted once, although a frame may arrive twice. `brokers` has what servers advertised, and
    when last, in nanoseconds since the epoch.
    `ranges_changes` counts new advertisements by listener.
    `captured` counts the rows of blocks (frames and events, without heartbeats) by capture time, in tenths of
    a second since the epoch, `blocks` the records of the topic that were read. `read_to` is the offset behind
    the last of these by partition, `refusal` says why the last one that is no block was refused, and
    `quarantined` are the first that are no blocks.
    `walked` counts the windows that the automaton took, `judged` those that the rules judged, and `clears`
    how often the automaton was full.
    `usage` and `changes` are empty unless they are archived.
    `claims` go to the step that judges identities; they do not reach the driver.
    """

    bucket: int
    findings: list[Finding] = []
    checks_at: dict[str, dict[str, dict[str, int]]] = {}
    offences: list[tuple[Offence, int]] = []
    frames: dict[str, dict[str, int]] = {}
    undecodable: dict[str, int] = {}
    ranges_changes: dict[str, int] = {}
    captured: dict[int, int] = {}
    blocks: int = 0
    read_to: dict[int, int] = {}
    refusal: str = ""
    requests: list[Requests] = []
    brokers: list[tuple[BrokerShown, int]] = []
    quarantined: list[Quarantined] = []
    open_connections: list[OpenConnections] = []
    state_bytes: int = 0
    walked: int = 0
    judged: int = 0
    clears: int = 0
    usage: list[Usage] = []
    changes: Changes = msgspec.field(default_factory=Changes)
    claims: PackedClaims = PackedClaims()

    @property
    def checks(self) -> dict[str, dict[str, int]]:
        """The checks at all listeners, by rule and ruling."""
        return checks_of([self])


def checks_of(reports: Iterable[Report]) -> dict[str, dict[str, int]]:
    """Add up the checks of reports at all listeners, by rule and ruling."""
    sums: dict[str, dict[str, int]] = {}
    for report in reports:
        for rules in report.checks_at.values():
            for rule, rulings in rules.items():
                of_rule = sums.setdefault(rule, {})
                for ruling, count in rulings.items():
                    of_rule[ruling] = of_rule.get(ruling, 0) + count
    return sums


_DECODER: Final = msgspec.msgpack.Decoder(Report)


def pack_report(report: Report) -> bytes:
    """Encode and compress a report."""
    return compress(msgspec.msgpack.encode(report))


def unpack_report(packed: bytes) -> Report:
    """Return the report that was packed."""
    return _DECODER.decode(decompress(packed))
