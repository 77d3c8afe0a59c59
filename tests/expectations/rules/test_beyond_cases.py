"""What pages of cases cannot show: configured listeners, a real broker, cut records, details of findings."""

from __future__ import annotations

import dataclasses
import socket

import pytest
from confluent_kafka import Producer

from decoders.frame.cutting import cut
from decoders.schema.registry import default_schemas
from decoders.wire.framing import PREFIX
from expectations.conversation.bodies import ClusterDescription
from expectations.judging.judge import Judge
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.rules.kip_1242.misrouted_accepted import ACCEPTED_LIMIT
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, advertisement
from tests.mutations.clean import ask, negotiate
from tests.mutations.kip_511 import REFUSED
from tests.mutations.script import Close, Script, Step, prefixed

ACCEPTED = "kip1242/misrouted-accepted"
WITHOUT_CAUSE = "kip1242/rebootstrap-without-cause"
KEPT = "kip511/connection-kept"
MALFORMED = "wire/malformed-request"


def judged(node_id: int, error_code: int, configured: ClusterDescription) -> Outcome:
    """A client that means to reach a node of cluster c, and a response with an error."""
    exchange = Exchange()
    body = SOFTWARE | {"clusterId": "c", "nodeId": node_id}
    exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement(error_code))
    exchange.close()
    terms = Terms(brokers={exchange.server: configured})
    return exchange.judge(judge=Judge(default_schemas().api_names, terms))


@pytest.mark.parametrize(
    ("rule", "node_id", "error_code", "verdict"),
    [
        (ACCEPTED, 3, 0, "conforms"),
        (ACCEPTED, 4, 0, "violates"),
        (WITHOUT_CAUSE, 3, 129, "violates"),
        (WITHOUT_CAUSE, 4, 129, "conforms"),
    ],
)
def test_ids_are_held_against_the_configured_ones(
    rule: str, node_id: int, error_code: int, verdict: str
) -> None:
    assert judged(node_id, error_code, ClusterDescription("c", 3)).checks[rule, verdict] == 1


@pytest.mark.parametrize("count", [ACCEPTED_LIMIT, ACCEPTED_LIMIT + 3])
def test_accepted_ids_wait_in_bounded_number_for_what_the_broker_says_of_itself(count: int) -> None:
    exchange = Exchange()
    for node_id in range(count):
        body = SOFTWARE | {"clusterId": "c", "nodeId": node_id}
        exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement())
    assert exchange.judge().checks.get((ACCEPTED, "forgotten"), 0) == count - ACCEPTED_LIMIT


def test_a_listener_of_which_only_the_cluster_is_configured_tells_nothing_of_the_node() -> None:
    outcome = judged(4, 0, ClusterDescription("c", -1))
    assert outcome.checks[ACCEPTED, "not-shown"] == 1


@pytest.mark.parametrize(
    ("mid_stream", "version", "anchor"),
    [(False, 6, "first-request"), (False, 4, "later"), (True, 6, "mid-stream")],
)
def test_a_changed_instance_id_is_told_with_both_ids_and_where_the_first_was_seen(
    mid_stream: bool, version: int, anchor: str
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    first_id = ID_A if version == 6 else None
    exchange.request("ApiVersions", version, SOFTWARE, client_id="app", instance_id=first_id)
    exchange.request("Metadata", 14, instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B)
    (finding,) = (each for each in exchange.judge().findings if each.rule == "kip1313/instance-id-changed")
    assert (finding.expected, finding.observed) == ("AAECAwQFBgcICQoLDA0ODw", "EBESExQVFhcYGRobHB0eHw")
    assert finding.context["anchor"] == anchor


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
    exchange = Exchange()
    asked = exchange.request("ApiVersions", 5, SOFTWARE, client_id="app")
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
