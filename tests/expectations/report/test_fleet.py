"""The fleet's report: every verdict and fact stands with the client software it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decoders.protocol import API_VERSIONS
from decoders.schema.registry import default_schemas
from expectations.judging.judge import open_connection
from expectations.report.client import Client
from expectations.report.fleet import LISTED_IDS, Activity, Fleet, HeaderBytes, UsedVersions
from expectations.report.matrix import facts_of
from expectations.rules.catalogue import RULES
from streaming.check.examination import Examination, examine
from tests.captures import planted, real_clients
from tests.exchange import ID_A, SOFTWARE, Exchange, advertisement
from tests.streaming.captures import write_capture

RANDOM, NOT_RANDOM = "e24NXjHETwqbHS9qjD5dcQ", "AAECAwQFBgcICQoLDA0ODw"
OF_ADDRESSES = {"kip1242/misrouted-accepted"}
"""Rules some of whose checks concern a server address, and no client."""


def clients_of(path: Path, exchange: Exchange) -> list[Client]:
    return examine(write_capture(path / "fleet.pcap", exchange), default_schemas()).clients


@pytest.fixture(scope="module", params=[planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def examination(request: Any) -> Examination:
    return examine(request.param, default_schemas())


def test_the_clients_coverage_adds_up_to_that_of_the_capture(examination: Examination) -> None:
    """Also of the rules on what connections share: no verdict is lost, none counted twice."""
    for at, row in enumerate(examination.coverage):
        if row.rule in OF_ADDRESSES:
            continue
        of_clients = [client.coverage[at] for client in examination.clients]
        assert {each.rule for each in of_clients} == {row.rule}
        for verdict in ("conforms", "violates", "undecided"):
            assert sum(getattr(each, verdict) for each in of_clients) == getattr(row, verdict)


def test_the_clients_connections_and_requests_add_up(examination: Examination) -> None:
    assert sum(client.connections for client in examination.clients) == examination.connections
    used = sum(use.requests for client in examination.clients for use in client.versions)
    assert sum(client.requests for client in examination.clients) == used > 0


def test_real_clients_are_told_apart() -> None:
    java, librdkafka = examine(real_clients.CAPTURE, default_schemas()).clients
    assert java.software == ("apache-kafka-java", "4.4.0")
    assert librdkafka.client_software_name == "confluent-kafka-python"
    assert set(java.client_ids).isdisjoint(librdkafka.client_ids)
    (produce,) = (use for use in librdkafka.versions if use.api == "Produce")
    assert produce.highest_offered is not None
    assert produce.versions[-1] < produce.highest_offered


def test_a_connection_without_api_versions_is_a_fact(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app")
    (client,) = clients_of(tmp_path, exchange)
    assert (client.software, client.without_api_versions) == ((None, None), 1)


def test_of_a_connection_joined_midway_nobody_knows_what_it_asked_before(tmp_path: Path) -> None:
    exchange = Exchange()
    for _ in range(3):
        exchange.request("Metadata", 12, client_id="app")
    del exchange.records[0]
    (client,) = clients_of(tmp_path, exchange)
    assert (client.requests > 0, client.without_api_versions) == (True, 0)


@pytest.mark.parametrize(("kept", "old"), [(4, 1), (3, 0), (1, 0)])
def test_an_api_versions_of_which_too_little_was_captured_is_neither_old_nor_missing(
    kept: int, old: int
) -> None:
    exchange, activity, usage = Exchange(), Activity(), UsedVersions()
    asked = exchange.request("ApiVersions", 0, client_id="app")
    exchange.cut_last(kept)
    exchange.respond(asked, advertisement())
    exchange.request("Metadata", 12, client_id="app")
    (window,) = exchange.windows()
    conversation = open_connection(window.connection).conversation
    for observation in window.observations:
        conversation.process(observation)
        activity.record(observation)
        usage.record(observation)
    activity.offer({API_VERSIONS: (0, 4)})
    activity.conclude(conversation)
    usage.conclude(conversation)
    assert (activity.old_api_versions, activity.without_api_versions) == (old, 0)
    assert usage.without_api_versions == 0


def test_an_owner_is_found_by_the_workload() -> None:
    exchange, fleet = Exchange(), Fleet([], {}, lambda names: names.workload)
    exchange.show_placement("payments/checkout@node-7")
    exchange.request("Metadata", 12, client_id="app")
    (window,) = exchange.windows()
    conversation = open_connection(window.connection).conversation
    for observation in window.observations:
        conversation.process(observation)
    fleet.record(conversation, window.observations, {})
    fleet.finish()
    ((party, count),) = fleet.parties()
    assert (party.owner, party.client_id, count) == ("payments/checkout", "app", 1)


@pytest.mark.parametrize(("versions", "old"), [([0], 1), ([2], 1), ([0, 3], 0), ([4], 0)])
def test_an_old_api_versions_is_a_fact_where_the_broker_has_newer(
    tmp_path: Path, versions: list[int], old: int
) -> None:
    exchange = Exchange()
    for version in versions:
        request = exchange.request("ApiVersions", version, SOFTWARE if version > 2 else {}, client_id="app")
        exchange.respond(request, advertisement())
    exchange.close()
    assert [client.old_api_versions for client in clients_of(tmp_path, exchange)] == [old]


def test_member_ids_that_are_not_random_are_named_once(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    for member_id in (RANDOM, NOT_RANDOM, NOT_RANDOM, "no uuid"):
        exchange.beat(member_id)
    (client,) = clients_of(tmp_path, exchange)
    assert client.not_random_member_ids == [NOT_RANDOM]


def test_what_is_named_is_bounded(tmp_path: Path) -> None:
    exchange = Exchange()
    for number in range(LISTED_IDS + 10):
        exchange.beat(f"AAECAwQFBgcICQoLDA{number:02}Dw")
    (client,) = clients_of(tmp_path, exchange)
    assert len(client.not_random_member_ids) == LISTED_IDS


def test_a_request_whose_api_was_not_captured_is_counted_under_none() -> None:
    exchange, activity = Exchange(), Activity()
    for captured in (2, 0):
        exchange.request("Metadata", 12, client_id="app")
        exchange.cut_last(captured)
    for observation in exchange.windows()[0].observations:
        activity.record(observation)
    uses = activity.client((None, None), RULES, default_schemas().api_names).versions
    assert [(use.api, use.api_key, use.versions, use.requests) for use in uses] == [
        ("unknown", None, (), 1),
        ("Metadata", 3, (), 1),
    ]


def test_bytes_of_client_ids_are_counted_as_kip_1313_argues(tmp_path: Path) -> None:
    """Sent once on header 3, again and again below it; each header 3 has 16 bytes of the instance."""
    exchange = Exchange()
    exchange.request("ApiVersions", 6, SOFTWARE, client_id="größe", instance_id=ID_A)
    for _ in range(3):
        exchange.request("Metadata", 14, instance_id=ID_A)
    (client,) = clients_of(tmp_path, exchange)
    assert client.requests_on_header_v3 == 4
    assert (client.client_id_bytes_saved, client.instance_id_bytes) == (3 * len("größe".encode()), 4 * 16)
    assert client.client_id_bytes_repeated == 0
    assert "header 3: 4 of 4 requests; client IDs left out 21 bytes, instance IDs take 64" in facts_of(client)


def test_a_client_below_header_3_repeats_its_id(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.negotiate(client_id="orders")
    for client_id in ("orders", "orders", None):
        exchange.request("Metadata", 12, client_id=client_id)
    (client,) = clients_of(tmp_path, exchange)
    assert (client.requests_on_header_v3, client.client_id_bytes_saved, client.instance_id_bytes) == (0, 0, 0)
    assert client.client_id_bytes_repeated == 2 * len("orders")
    assert "client IDs sent again on the same connection: 12 bytes" in facts_of(client)


def test_bytes_of_a_software_are_the_sum_over_its_connections() -> None:
    total = HeaderBytes()
    for number in range(1, 3):
        exchange, headers = Exchange(), HeaderBytes()
        for _ in range(1 + number):
            exchange.request("Metadata", 12, client_id="orders")
        (window,) = exchange.windows()
        state = open_connection(window.connection)
        for observation in window.observations:
            state.conversation.process(observation)
            headers.record(observation)
        headers.conclude(state.conversation)
        total.add(headers)
    assert total == HeaderBytes(requests=5, with_client_id=5, repeated=3 * len("orders"))
