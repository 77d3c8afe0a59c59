"""The rules of KIP-511, KIP-35 and the wire fire, conform and stay undecided where they should."""

from __future__ import annotations

import dataclasses
import socket

import pytest
from confluent_kafka import Producer

from decoders.frame.cutting import cut
from decoders.frame.record import Direction
from decoders.schema.registry import default_schemas
from decoders.wire.framing import PREFIX
from tests.exchange import SOFTWARE, Exchange, advertisement
from tests.mutations.clean import ask, negotiate
from tests.mutations.kip_511 import REFUSED
from tests.mutations.script import Close, Script, Step, prefixed

NAME = "kip511/software-name-malformed"
RANGE = "kip35/version-out-of-range"
KEPT = "kip511/connection-kept"
MALFORMED = "wire/malformed-request"


def claim(name: str, version: int = 4) -> Exchange:
    """A connection that begins with a software name."""
    exchange = Exchange()
    exchange.request("ApiVersions", version, SOFTWARE | {"clientSoftwareName": name}, client_id="app")
    return exchange


@pytest.mark.parametrize("name", ["RP Console", "-x", "x.", "java@kafka", ""])
def test_a_malformed_name_violates_once_the_response_has_its_version(name: str) -> None:
    exchange = claim(name)
    assert exchange.verdicts(NAME) == (0, 0, 0)
    exchange.respond(exchange.records[-1], advertisement(42))
    assert exchange.verdicts(NAME) == (0, 1, 0)


def test_the_finding_says_when_the_readings_differ() -> None:
    exchange = claim("-x")
    exchange.respond(exchange.records[-1], advertisement(42))
    assert "text allows it" in exchange.judge().findings[0].message


@pytest.mark.parametrize("name", ["librdkafka", "a", "apache-kafka.java"])
def test_a_good_name_conforms(name: str) -> None:
    exchange = claim(name)
    exchange.respond(exchange.records[-1], advertisement())
    assert exchange.verdicts(NAME) == (1, 0, 0)


def test_a_name_the_broker_did_not_understand_is_not_judged() -> None:
    exchange = claim("RP Console")
    body = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]}
    exchange.respond(exchange.records[-1], body, version=0)
    assert exchange.verdicts(NAME) == (0, 0, 0)


def test_a_name_without_a_response_is_undecided() -> None:
    exchange = claim("RP Console")
    exchange.close()
    assert exchange.verdicts(NAME) == (0, 0, 1)


def test_a_lost_response_leaves_the_name_undecided() -> None:
    exchange = claim("RP Console")
    exchange.gap(Direction.TO_CLIENT)
    assert exchange.verdicts(NAME) == (0, 0, 1)


def test_a_version_outside_the_range_violates_when_the_response_was_read() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("FindCoordinator", 0, {"key": "g"}, client_id="app", settled=True)
    exchange.request("Produce", 2, client_id="app", settled=True, frame=bytes.fromhex("0000000200000009ffff"))
    assert exchange.verdicts(RANGE) == (1, 1, 0)
    assert exchange.judge().findings[0].message == "Produce v2 is outside the advertised range 3 to 14"


def test_a_request_that_may_have_been_in_flight_is_undecided() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("Produce", 2, client_id="app", frame=bytes.fromhex("0000000200000009ffff"))
    assert exchange.verdicts(RANGE) == (0, 0, 1)


def test_before_any_advertisement_versions_are_undecided() -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app", settled=True)
    exchange.close()
    assert exchange.verdicts(RANGE) == (0, 0, 1)


def test_the_one_range_beside_error_35_advertises_nothing() -> None:
    exchange = Exchange()
    request = exchange.request("ApiVersions", 4, SOFTWARE, client_id="app")
    body = {"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}]}
    exchange.respond(request, body, version=0)
    exchange.request("Metadata", 12, client_id="app", settled=True)
    exchange.close()
    assert exchange.verdicts(RANGE) == (0, 0, 1)


def test_a_gap_that_may_hide_an_advertisement_takes_the_one_before_back() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("ApiVersions", 0, client_id="app")
    exchange.gap(Direction.TO_CLIENT)
    exchange.request("Produce", 2, client_id="app", settled=True, frame=bytes.fromhex("0000000200000009ffff"))
    exchange.close()
    assert exchange.verdicts(RANGE) == (0, 0, 1)


def test_apiversions_itself_is_exempt() -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.request("ApiVersions", 5, SOFTWARE, client_id="app", settled=True)
    assert exchange.verdicts(RANGE) == (0, 0, 0)


def test_a_frame_that_no_schema_reads_violates_and_says_where() -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    assert exchange.verdicts(MALFORMED) == (0, 1, 0)
    assert exchange.judge().findings[0].context["offset"].isdigit()


def test_a_frame_that_decodes_conforms() -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app")
    assert exchange.verdicts(MALFORMED) == (1, 0, 0)


def test_a_frame_that_was_cut_is_undecided() -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, {"topics": [{"name": "long-topic-name"}]}, client_id="app")
    exchange.cut_last(20)
    assert exchange.verdicts(MALFORMED) == (0, 0, 1)


def test_an_unknown_version_is_not_malformed() -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003006300000009ffff00ff"))
    assert exchange.verdicts(MALFORMED) == (0, 0, 0)


def test_of_25_quick_requests_on_each_refused_connection_all_but_two_are_held_against_the_client() -> None:
    steps: list[Step] = []
    for name in ("one", "two", "three", "four", "five"):
        refused = dataclasses.replace(
            negotiate(4, on=name, clientSoftwareName="RP Console"), response=REFUSED
        )
        quick = dataclasses.replace(ask("Metadata", 12, on=name), after=0.024)
        steps += [refused, *[quick] * 25, Close(on=name)]
    checks = Script("kept", tuple(steps)).judge().checks
    assert (checks[KEPT, "violates"], checks[KEPT, "under-way"]) == (5 * 23, 5 * 2)


def test_librdkafkas_mock_broker_refuses_in_no_layout() -> None:
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    exchange = claim("tester", version=5)
    asked = exchange.records[-1]
    with socket.create_connection((broker.host, broker.port), timeout=10) as peer:
        peer.sendall(prefixed(asked.frame))
        received = peer.makefile("rb")
        frame = received.read(int.from_bytes(received.read(PREFIX)))
    exchange.respond(asked, frame=frame)
    exchange.close()
    assert [finding.rule for finding in exchange.judge().findings] == ["kip511/unsupported-answer-not-v0"]


@pytest.mark.parametrize(
    ("behind", "verdicts"), [(b"", ((1, 0, 0), (1, 0, 0))), (b"xx", ((1, 0, 0), (0, 1, 0)))]
)
def test_nothing_hides_behind_records(behind: bytes, verdicts: object) -> None:
    """The feeder reads a frame whole before it cuts away the records."""
    records = {"topicData": [{"partitionData": [{"index": 0, "records": "c2VjcmV0"}]}]}
    written = Exchange().request("Produce", 9, {"acks": 1, "timeoutMs": 1, **records}).frame + behind
    exchange = Exchange()
    exchange.records.append(cut(default_schemas(), exchange.request("Produce", 9, frame=written)))
    del exchange.records[-2]
    assert b"secret" not in exchange.records[-1].frame
    assert (exchange.verdicts(MALFORMED), exchange.verdicts("wire/trailing-bytes")) == verdicts
    exchange.cut_last(len(written) - 12)
    assert exchange.verdicts("wire/encoding-not-canonical")[1] == 0
