"""A probe names what a broker does wrong and nothing else; hostile servers cost neither time nor memory."""

from __future__ import annotations

import socket
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from decoders.codec.request import read_request
from decoders.codec.response import write_response
from decoders.frame.record import Kind
from expectations.judging.terms import Terms
from expectations.report.duties import DutyReport, DutyState
from expectations.rules.base.rule import Role
from expectations.rules.catalogue import RULES
from streaming.broker.ports import HOST, free_ports
from streaming.check.examination import examine, records_of
from streaming.demo.loopback import LoopbackServer
from streaming.probe.connection import MOST_READ, MOST_REQUESTS, OPEN, Login, Security, Target
from streaming.probe.duties import DUTIES, Duty
from streaming.probe.probing import Probing
from streaming.record.rewriting import Address, Body, ForwardedRequest
from streaming.user_error import UserError
from tests.streaming.captures import write_packets
from tests.streaming.probe.faults import FAULTS, Fault
from tests.streaming.probe.model_broker import SCHEMAS, ModelBroker

_EVERYWHERE = ("wire/correlation-mismatch", "wire/malformed-response", "wire/trailing-bytes")
"""Rules about any frame."""
OFFENCES = {
    "unknown-api": {"wire/unknown-api", "kip35/api-not-advertised", "kip35/version-refused"},
    "unknown-version": {"wire/unknown-api", "wire/malformed-request"},
    "malformed-software": {"kip511/software-name-malformed", "kip511/software-version-malformed"},
    "half-identified": {"kip1242/half-identified"},
    "misrouted": {"kip1242/misrouted"},
    "member-id-assigned": {"kip1082/member-id-assigned-late"},
    "member-id-kept": {"kip1082/member-id-not-base64url", "kip1082/member-id-changed"},
    "member-id-empty": {"kip1082/member-id-empty"},
    "instance-id-checked": {
        "kip1313/instance-id-missing",
        "kip1313/instance-id-changed",
        "kip1313/member-id-differs",
    },
    "malformed-request": {"wire/malformed-request", "kip1082/member-id-empty"},
    "wrong-frame-size": {"wire/frame-size-invalid", "wire/malformed-request"},
}
"""The rules that the probe itself breaks on purpose, by duty."""
LOGGED_IN = Security(login=Login("PLAIN", "user", "secret"))
SHORT = 0.2
"""Seconds of patience with servers that do not respond."""


def probed(address: Address, only: str = "", security: Security = OPEN) -> list[DutyReport]:
    """Probe a server, joining groups, too."""
    probing = Probing(Target(SCHEMAS, address, security), Terms())
    probing.open()
    return list(probing.run([duty for duty in DUTIES if only in ("", duty.name)], writes=True))


@pytest.mark.parametrize("newest", [3, 4, 5, 6])
def test_a_broker_that_meets_its_duties_is_accused_of_nothing(newest: int) -> None:
    with ModelBroker(newest) as broker:
        duties = probed(broker.address)
    assert {duty.duty: duty.why for duty in duties if duty.state is DutyState.UNDECIDED} == {}
    assert [duty.findings for duty in duties if duty.findings] == []
    missing = {duty.duty for duty in duties if duty.state is DutyState.NOT_OFFERED}
    of_1242 = {"half-identified", "misrouted", "well-routed"}
    of_1313 = {"header-v3", "instance-id-checked", "handshake-without-instance-id"}
    assert missing == (of_1242 if newest < 5 else set()) | (of_1313 if newest < 6 else set())


def test_a_broker_is_asked_by_no_header_that_it_does_not_have() -> None:
    with ModelBroker(5) as broker:
        probing = Probing(Target(SCHEMAS, broker.address), Terms())
        probing.open()
        assert list(probing.run(DUTIES, writes=True))
    records = records_of(SCHEMAS, probing.packets, [broker.address[1]], 1)
    requests = [read_request(SCHEMAS, each.frame) for each in records if each.kind is Kind.REQUEST]
    assert requests and 3 not in {request.header_version for request in requests}


def test_each_rule_about_brokers_belongs_to_a_duty() -> None:
    """Those about any frame are judged with every duty."""
    judged = {rule for duty in DUTIES for rule in duty.rules}
    assert {rule.id for rule in RULES if rule.role is Role.BROKER} <= judged
    assert judged.union(*OFFENCES.values()) <= {rule.id for rule in RULES}
    assert OFFENCES.keys() <= {duty.name for duty in DUTIES}


def test_what_joins_groups_is_asked_only_if_it_is_wanted() -> None:
    with ModelBroker() as broker:
        probing = Probing(Target(SCHEMAS, broker.address), Terms())
        probing.open()
        states = {duty.duty: duty.why for duty in probing.run(DUTIES, writes=False)}
    unasked = [name for name, why in states.items() if "--writes" in why]
    assert unasked == ["member-id-assigned", "member-id-kept"]


def garbage(connection: socket.socket) -> None:
    connection.sendall(b"220 localhost ESMTP\r\n")


def huge(connection: socket.socket) -> None:
    """Announce a response of 100 MB, and send it."""
    connection.recv(4096)
    connection.sendall((100_000_000).to_bytes(4))
    for _ in range(100):
        connection.sendall(bytes(1_000_000))


def dripping(connection: socket.socket) -> None:
    """Send a byte now and then, for ever."""
    connection.recv(4096)
    while True:
        connection.sendall(b"\0")
        time.sleep(SHORT / 4)


def echoing(connection: socket.socket) -> None:
    while received := connection.recv(4096):
        connection.sendall(received)


def closing(connection: socket.socket) -> None:
    connection.recv(4096)


def quietly(serve: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    def served(connection: socket.socket) -> None:
        try:
            serve(connection)
        except OSError:
            return

    return served


@pytest.mark.parametrize(
    ("serve", "states"),
    [
        (closing, {DutyState.UNDECIDED}),
        (garbage, {DutyState.UNDECIDED, DutyState.VIOLATES}),
        (echoing, {DutyState.UNDECIDED, DutyState.VIOLATES}),
        (huge, {DutyState.UNDECIDED}),
        (dripping, {DutyState.UNDECIDED, DutyState.VIOLATES}),
    ],
)
def test_a_hostile_server_gets_rows(serve: Callable[[socket.socket], None], states: set[DutyState]) -> None:
    began = time.monotonic()
    with LoopbackServer("hostile", quietly(serve)) as server:
        target = Target(SCHEMAS, server.address, patience=SHORT)
        probing = Probing(target, Terms())
        tracemalloc.start()
        probing.open()
        duties = list(probing.run(DUTIES, writes=True))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(duties) == len(DUTIES)
    assert {duty.state for duty in duties} <= states, [(duty.duty, duty.state, duty.why) for duty in duties]
    assert all(duty.why or duty.findings for duty in duties if duty.state is not DutyState.CONFORMS)
    assert target.requests <= MOST_REQUESTS
    assert most < 250 * MOST_READ
    assert time.monotonic() - began < 60


def test_no_connection_has_the_port_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux may give it out again at once. The two could be one connection that was captured twice."""
    connect, used = socket.create_connection, [0, 0]

    def connect_again(address: Address, timeout: float, source_address: Address) -> socket.socket:
        return connect(address, timeout, (source_address[0], used.pop()))

    monkeypatch.setattr(socket, "create_connection", connect_again)
    with ModelBroker() as broker:
        target = Target(SCHEMAS, broker.address)
        with target.connect(lambda _packets: None) as first:
            port = first.port
            # Else the port of the side that closes first waits for late segments.
            first._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        used += [0, port]
        with target.connect(lambda _packets: None) as second:
            assert second.port != port
    assert used == [0]


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP, not Kafka"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it speaks SSH, not Kafka"),
        (b"\x15\3\3\0\2\2\x46", "expects TLS: set kafka.security.protocol"),
        (b"", "no response within 5 s; name a listener of Kafka"),
    ],
)
def test_what_is_no_kafka_is_a_user_error(response: bytes, message: str) -> None:
    def serve(connection: socket.socket) -> None:
        while connection.recv(4096):
            connection.sendall(response)

    with LoopbackServer("other", quietly(serve)) as server, pytest.raises(UserError, match=message):
        Probing(Target(SCHEMAS, server.address, patience=SHORT), Terms()).open()


def test_a_port_where_nobody_listens_is_a_user_error() -> None:
    [port] = free_ports(1)
    with pytest.raises(UserError, match=f"cannot probe {HOST}:{port}: .*Connection refused"):
        probed((HOST, port))


@pytest.mark.parametrize("newest", [4, 6])
@pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: duty.name)
def test_the_probe_itself_does_wrong_only_what_is_announced(duty: Duty, newest: int, tmp_path: Path) -> None:
    with ModelBroker(newest) as broker:
        probing = Probing(Target(SCHEMAS, broker.address), Terms())
        probing.open()
        assert list(probing.run([duty], writes=True))
    capture = write_packets(tmp_path / "probe.pcap", probing.packets)
    broken = {finding.rule for finding in examine(capture, SCHEMAS, [broker.address[1]]).findings}
    assert broken <= OFFENCES.get(duty.name, set())


@pytest.mark.parametrize("lacking", [{"coordinators": []}, None], ids=["none listed", "malformed"])
def test_a_coordinator_that_the_broker_does_not_name_stops_no_probe(lacking: Body | None) -> None:
    def alter(asked: ForwardedRequest, response: bytes) -> bytes:
        if asked.api != "FindCoordinator":
            return response
        if lacking is None:
            return response[:-1]
        return write_response(SCHEMAS, asked.api_key, asked.version, int.from_bytes(response[:4]), lacking)

    with ModelBroker(alter=alter) as broker:
        [assigned] = probed(broker.address, only="member-id-assigned")
        [kept] = probed(broker.address, only="member-id-kept")
    expected = {"wire/malformed-response"} if lacking is None else set()
    assert {finding.rule for duty in (assigned, kept) for finding in duty.findings} == expected


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.rule)
def test_a_planted_fault_is_named(fault: Fault) -> None:
    with ModelBroker(fault.newest, fault.make()) as broker:
        duties = probed(broker.address, fault.duty, LOGGED_IN if fault.login else OPEN)
    [duty] = duties
    assert fault.rule in {finding.rule for finding in duty.findings}, (duty.why, duty.findings)
    assert {finding.role for finding in duty.findings} == {Role.BROKER}


def test_a_response_that_nobody_asked_for_is_named() -> None:
    with ModelBroker(twice=2) as broker:
        [duty] = probed(broker.address, only="responses-in-order")
    assert "wire/answer-without-request" in {finding.rule for finding in duty.findings}


def test_each_rule_about_brokers_has_a_planted_fault() -> None:
    planted = {fault.rule for fault in FAULTS} | {"wire/answer-without-request"}
    assert {rule.id for rule in RULES if rule.role is Role.BROKER} <= planted
    assert {(fault.duty, fault.rule) for fault in FAULTS if fault.rule not in _EVERYWHERE} <= {
        (duty.name, rule) for duty in DUTIES for rule in duty.rules
    }
