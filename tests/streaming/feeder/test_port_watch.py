"""What the feeder's log says of ports that carry nothing that can be judged, and of TLS on each port."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import TlsOutcome
from decoders.wire.decryption import MAX_KEY_WAIT
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import port_watch
from streaming.feeder.feeder import Feeder
from streaming.feeder.key_log_files import FollowedKeyLogs
from streaming.feeder.port_watch import LATER, OPAQUE_AT_START, SILENT_AT_START, UNREAD, PortWatch, TlsWatch
from streaming.settings.configuration import Configuration
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.conversation import CLIENT, SERVER, TO_BROKER, exchanges, metadata, prefixed
from tests.decoders.wire.encrypted import encrypted, packets
from tests.streaming.feeder.test_feeder import FakeOutlet, batches

PLAIN, OTHER = 9092, 9093
OF_EVERY_LINE = {"time", "level", "event"}
TLS = bytes.fromhex("16030100a5010000a10303")
PORT = 9093


class Watched:
    """Two ports whose ledgers a test raises; `lines` are those logged since the last call."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.ledgers = {PLAIN: Ledger(), OTHER: Ledger()}
        self._watch, self._capsys = PortWatch("interface lo"), capsys
        self.lines(at=0)

    def frame(self, port: int = PLAIN) -> None:
        self.ledgers[port].capture(100)
        self.ledgers[port].frame(100)

    def skip(self, port: int = OTHER, protocol: str = "TLS") -> None:
        self.ledgers[port].capture(100)
        self.ledgers[port].skip(SkipReason.OPAQUE, 100)
        self.ledgers[port].count_opaque(protocol)

    def lines(self, at: float) -> list[dict[str, Any]]:
        self._watch.check(self.ledgers, at)
        lines = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        return [{name: value for name, value in line.items() if name not in OF_EVERY_LINE} for line in lines]


@pytest.fixture
def watched(capsys: pytest.CaptureFixture[str]) -> Watched:
    return Watched(capsys)


def test_a_port_that_carries_only_tls_is_told_once(watched: Watched) -> None:
    watched.frame()
    watched.skip()
    assert watched.lines(at=1) == []
    watched.skip()
    assert watched.lines(at=1 + OPAQUE_AT_START) == [
        {
            "feeder": "not-kafka",
            "port": OTHER,
            "protocol": "TLS",
            "message": "port 9093 carries TLS: nothing is judged there; see docs/feed.md#tls",
        }
    ]
    watched.skip()
    watched.frame()
    assert watched.lines(at=60) == []


@pytest.mark.parametrize(
    ("protocol", "carried"), [("HTTP", "HTTP"), ("noise", "something that is not Kafka"), ("SSH", "SSH")]
)
def test_other_protocols_are_named(watched: Watched, protocol: str, carried: str) -> None:
    watched.skip(protocol=protocol)
    watched.lines(at=1)
    (line,) = watched.lines(at=1 + OPAQUE_AT_START)
    assert line["message"].startswith(f"port 9093 carries {carried}: nothing is judged there; see ")


def test_a_scanner_beside_clients_is_not_told(watched: Watched) -> None:
    """A pause of some minutes is no silence."""
    for second in range(20):
        watched.skip(PLAIN)
        watched.frame(PLAIN)
        watched.frame(OTHER)
        assert watched.lines(at=second) == []
    watched.skip(PLAIN)
    assert watched.lines(at=20) == watched.lines(at=LATER - 1) == []


def test_a_port_that_changes_to_tls_is_told_and_told_again_after_it_carried_frames(watched: Watched) -> None:
    watched.frame(OTHER)
    watched.lines(at=1)
    for begun in (0.0, 2 * LATER):
        watched.skip()
        watched.frame(PLAIN)
        assert watched.lines(at=begun + 2) == []
        watched.skip()
        watched.frame(PLAIN)
        assert [line["feeder"] for line in watched.lines(at=begun + 2 + LATER)] == ["not-kafka"]
        watched.frame(OTHER)
        watched.frame(PLAIN)
        assert watched.lines(at=begun + 3 + LATER) == []


def test_a_port_without_traffic_is_told_once_with_the_place_to_look(watched: Watched) -> None:
    watched.frame()
    assert watched.lines(at=SILENT_AT_START - 1) == []
    assert watched.lines(at=SILENT_AT_START) == [
        {
            "feeder": "no-traffic",
            "port": OTHER,
            "message": "port 9093 on interface lo has carried nothing for 60 s: check the port and the "
            "interface; see docs/feed.md#nothing-arrives",
        }
    ]
    assert watched.lines(at=LATER) == []


def test_a_port_that_falls_silent_is_told_after_a_quarter_of_an_hour(watched: Watched) -> None:
    watched.frame(PLAIN)
    watched.frame(OTHER)
    assert watched.lines(at=1) == watched.lines(at=LATER) == []
    watched.frame(OTHER)
    assert [line["port"] for line in watched.lines(at=LATER + 1)] == [PLAIN]


def test_the_feeder_tells_and_counts_by_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Accounts the bytes of both ports, on the fast path and on the slow one."""
    monkeypatch.setattr(port_watch, "OPAQUE_AT_START", 0.0)
    monkeypatch.setattr("streaming.feeder.feeder.METRICS_INTERVAL", 0.0)
    kafka = SyntheticConnection(CLIENT, SERVER)
    encrypted = SyntheticConnection(CLIENT, SERVER._replace(port=OTHER))
    request = prefixed(metadata(1))
    first = [*kafka.opened(1), *encrypted.opened(1), *encrypted.sent(2, TO_BROKER, TLS)]
    rest = [kafka.sent(at, TO_BROKER, request) + encrypted.sent(at, TO_BROKER, TLS) for at in range(3, 10)]
    feeder = Feeder(Configuration(ports=[PLAIN, OTHER]), run=1)
    feeder.run(batches(first, *rest), FakeOutlet())
    value = feeder.registry.get_sample_value
    name = "kipwatch_capture_port_bytes_total"
    assert value(name, {"port": "9092", "fate": "framed"}) == 7 * len(request)
    assert value(name, {"port": "9092", "fate": "skipped-opaque"}) == 0
    assert value(name, {"port": "9093", "fate": "framed"}) == 0
    assert value(name, {"port": "9093", "fate": "skipped-opaque"}) == 8 * len(TLS)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["port"], line["protocol"]) for line in told if line["feeder"] == "not-kafka"] == [
        (OTHER, "TLS")
    ]


class WatchedTls:
    """One port whose ledger a test raises; `lines` are those logged since the last call."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.ledger = Ledger()
        self._watch, self._capsys = TlsWatch(), capsys

    def lines(self, at: float) -> list[tuple[str, str | None]]:
        self._watch.check({PORT: self.ledger}, at)
        return [(line["feeder"], line.get("outcome")) for line in logged(self._capsys)]


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def watched_tls(capsys: pytest.CaptureFixture[str]) -> WatchedTls:
    return WatchedTls(capsys)


def test_each_outcome_is_told_once(watched_tls: WatchedTls) -> None:
    assert watched_tls.lines(at=0) == []
    watched_tls.ledger.count_tls(TlsOutcome.READ)
    assert watched_tls.lines(at=1) == [("tls-read", None)]
    for second in range(2, 5):
        watched_tls.ledger.count_tls(TlsOutcome.READ)
        watched_tls.ledger.count_tls(TlsOutcome.UNSUPPORTED_SUITE)
        expected = [("tls-not-read", "unsupported_suite")] if second == 2 else []
        assert watched_tls.lines(at=second) == expected


def test_a_key_log_that_stops_is_told_again_once_nothing_was_read_for_long(watched_tls: WatchedTls) -> None:
    watched_tls.ledger.count_tls(TlsOutcome.NO_KEY)
    assert watched_tls.lines(at=1) == [("tls-not-read", "no_key")]
    watched_tls.ledger.frame(100)
    watched_tls.ledger.count_tls(TlsOutcome.NO_KEY)
    assert watched_tls.lines(at=LATER) == []
    watched_tls.ledger.count_tls(TlsOutcome.NO_KEY)
    assert watched_tls.lines(at=2 * LATER - 1) == []
    assert watched_tls.lines(at=2 * LATER) == [("tls-not-read", "no_key")]
    assert watched_tls.lines(at=9 * LATER) == []


def test_every_outcome_but_read_has_a_reason() -> None:
    assert set(UNREAD) == set(TlsOutcome) - {TlsOutcome.READ}


@pytest.mark.parametrize("has_secrets", [True, False])
def test_the_feeder_tells_of_a_port_whose_keys_never_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], has_secrets: bool
) -> None:
    monkeypatch.setattr("streaming.feeder.feeder.METRICS_INTERVAL", 0.0)
    writer, key_log = TlsWriter(*SUITES[3]), KeyLog()
    if has_secrets:
        key_log.add(writer.key_log)
    sent = packets(encrypted(exchanges(9), writer), interval=MAX_KEY_WAIT // 8, close=False)
    key_logs = FollowedKeyLogs([], lambda *_: None, key_log)
    feeder = Feeder(Configuration(ports=[9092]), run=1, key_logs=key_logs)
    feeder.run(batches(*([each] for each in sent)), FakeOutlet())
    told = {line["feeder"]: line for line in logged(capsys)}
    line = told["tls-read" if has_secrets else "tls-not-read"]
    assert line["port"] == 9092
    if not has_secrets:
        assert line["message"].startswith("port 9092: the key log has no secrets of TLS connections: ")
    assert ("tls-read" in told) == has_secrets
    assert "not-kafka" not in told
