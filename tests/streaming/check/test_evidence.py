"""Evidence shows the same finding again, is small, and holds nothing that may not be kept."""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from pathlib import Path

import pytest

from decoders.frame.cutting import cut
from decoders.frame.record import Direction, Kind, Record
from decoders.schema.registry import default_schemas
from decoders.wire.synthesis import RELAY_DELAY
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES
from streaming.check.evidence import CheckedCapture, evidence_name, keepable, packets_of, write_evidence
from streaming.check.examination import Examination, examine, records_of
from streaming.feeder.source import open_capture
from tests.captures import planted, real_clients
from tests.cases.notation import read_page
from tests.exchange import ID_A, ID_B, SECOND, SOFTWARE, Exchange
from tests.streaming.captures import write_packets

SCHEMAS = default_schemas()
PAGES = sorted((Path(__file__).parents[2] / "cases").rglob("*/*.md"))
UNADVERTISED = "kip35/api-not-advertised"
SECRET = b"hunter2-hunter2-hunter2"
PARTITIONS = [{"index": index, "records": base64.b64encode(SECRET).decode()} for index in range(2)]
CAPTURES = pytest.mark.parametrize(
    "capture", [planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real clients"]
)


def write_exchange(path: Path, exchange: Exchange, delay: int = 0) -> Path:
    records = sorted(exchange.records, key=lambda record: record.sequence)
    return write_packets(path, packets_of(records, delay))


def assert_evidence(folder: Path, capture: Path, rules: Sequence[Rule] = RULES) -> Examination:
    """Every finding of a capture is shown again by its own file, and by nothing else in the folder."""
    terms = Terms(rules)
    whole = examine(capture, SCHEMAS, terms=terms)
    assert write_evidence(folder, CheckedCapture([capture], SCHEMAS, (), terms), whole) == []
    assert {path.name for path in folder.iterdir()} == set(map(evidence_name, whole.findings))
    for finding in whole.findings:
        again = examine(folder / evidence_name(finding), SCHEMAS, terms=terms).findings
        assert finding.likeness() in [each.likeness() for each in again]
    return whole


@CAPTURES
def test_every_finding_of_a_capture_is_shown_by_a_small_file(capture: Path, tmp_path: Path) -> None:
    whole = assert_evidence(tmp_path / "evidence", capture)
    assert whole.findings
    assert all(path.stat().st_size < 10_000 for path in (tmp_path / "evidence").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_finding_of_a_case_is_shown(page: Path, tmp_path: Path) -> None:
    """Of every rule: with gaps, joined midway, on several connections."""
    for number, case in enumerate(read_page(page)):
        exchange, rules = case.exchange()
        capture = write_exchange(tmp_path / f"{number}.pcap", exchange)
        assert_evidence(tmp_path / f"evidence-{number}", capture, rules)


@pytest.mark.parametrize("delay", [0, RELAY_DELAY])
def test_requests_after_a_response_stay_after_it(delay: int, tmp_path: Path) -> None:
    """Two seconds later a request counts as sent after the response in packets, not in those of a relay."""
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for _ in range(2):
        exchange.wait(2)
        exchange.request("Metadata", 13, client_id="app")
        exchange.request("InitProducerId", 6, client_id="app")
    exchange.wait(9)
    exchange.request("InitProducerId", 6, client_id="app")
    capture = write_exchange(tmp_path / "a.pcap", exchange, delay)
    whole = assert_evidence(tmp_path / "e", capture)
    (times,) = (each.occurrences for each in whole.findings if each.rule == UNADVERTISED)
    assert times == (3 if delay == 0 else 1)


def producing() -> Exchange:
    """Another instance ID in requests that carry records, at a version that only the overlay knows."""
    exchange = Exchange()
    exchange.request(
        "ApiVersions", 6, {"clientSoftwareName": "x", "clientSoftwareVersion": "1"}, instance_id=ID_A
    )
    for _ in range(3):
        exchange.request(
            "Produce",
            14,
            {"acks": 1, "topicData": [{"name": "t", "partitionData": PARTITIONS}]},
            instance_id=ID_B,
        )
    exchange.close()
    return exchange


def test_payloads_are_not_kept_and_their_requests_are_judged(tmp_path: Path) -> None:
    capture = write_exchange(tmp_path / "a.pcap", producing())
    assert SECRET in capture.read_bytes()
    whole = assert_evidence(tmp_path / "e", capture)
    changed = [each.occurrences for each in whole.findings if each.rule == "kip1313/instance-id-changed"]
    assert changed == [3]
    assert not any(SECRET in path.read_bytes() for path in (tmp_path / "e").iterdir())


def test_of_many_connections_on_which_a_server_shows_the_same_the_first_and_the_last_are_kept(
    tmp_path: Path,
) -> None:
    told = {"clusterId": "c", "brokers": [{"nodeId": 3, "host": "10.0.0.2", "port": 9092}]}
    records: list[Record] = []
    for number in range(41):
        client, at = f"10.0.0.1:{40_000 + number}", (1_000 + number) * SECOND
        exchange = Exchange(records=records, at=at, connection=bytes([number]) * 16, client=client)
        if number == 20:
            asked = exchange.request("ApiVersions", 5, SOFTWARE | {"clusterId": "c", "nodeId": 3})
            exchange.respond(asked, {"errorCode": 129})
        else:
            exchange.respond(exchange.request("Metadata", 12), told)
        exchange.close()
    whole = assert_evidence(tmp_path / "e", write_packets(tmp_path / "a.pcap", packets_of(records, 0)))
    [finding] = [each for each in whole.findings if each.rule == "kip1242/rebootstrap-without-cause"]
    shown = examine(tmp_path / "e" / evidence_name(finding), SCHEMAS)
    assert (whole.connections, shown.connections) == (41, 3)


@functools.cache
def records(capture: Path) -> list[Record]:
    with open_capture(capture) as packets:
        return list(records_of(SCHEMAS, packets, (), 1))


@CAPTURES
def test_what_is_kept_is_cut_again_without_change(capture: Path) -> None:
    for record in [*records(capture), *producing().records]:
        assert cut(SCHEMAS, keepable(SCHEMAS, record)).frame == cut(SCHEMAS, record).frame


@CAPTURES
def test_packets_yield_the_records_that_they_were_made_of(capture: Path) -> None:
    def essentials(found: Sequence[Record]) -> list[object]:
        frames = [each for each in found if each.kind is not Kind.OPENED]
        return [
            (each.kind, each.client, each.direction, each.pairing, each.true_length, each.frame, each.closing)
            for each in frames
        ]

    again = records_of(SCHEMAS, packets_of(records(capture), 0), (), 1)
    assert essentials(list(again)) == essentials(records(capture))


def test_a_finding_that_no_file_shows_is_returned_and_leaves_no_file(tmp_path: Path) -> None:
    """For example if the capture was replaced since it was examined."""
    whole = examine(write_exchange(tmp_path / "a.pcap", producing()), SCHEMAS)
    capture = write_exchange(tmp_path / "a.pcap", Exchange())
    assert (
        write_evidence(tmp_path / "e", CheckedCapture([capture], SCHEMAS, (), Terms()), whole)
        == whole.findings
    )
    assert list((tmp_path / "e").iterdir()) == []


def test_a_finding_that_needs_the_named_port_is_shown_with_it(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.not_kafka(b"GET ")
    exchange.close(first=Direction.TO_CLIENT)
    path = write_exchange(tmp_path / "capture.pcap", exchange)
    whole = examine(path, SCHEMAS, (9092,))
    assert [finding.rule for finding in whole.findings] == ["wire/not-kafka"]
    assert examine(path, SCHEMAS).findings == []
    capture = CheckedCapture([path], SCHEMAS, (9092,), Terms())
    assert write_evidence(tmp_path / "evidence", capture, whole) == []
    (evidence,) = (tmp_path / "evidence").iterdir()
    assert examine(evidence, SCHEMAS, (9092,)).findings[0].likeness() == whole.findings[0].likeness()
