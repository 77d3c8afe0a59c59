"""What the feeder's log says of ports that carry nothing that can be judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.synthesis import SyntheticConnection
from streaming.feeder import port_watch
from streaming.feeder.feeder import Feeder
from streaming.feeder.port_watch import LATER, OPAQUE_AT_START, SILENT_AT_START, PortWatch
from streaming.settings.configuration import Configuration
from tests.decoders.wire.conversation import CLIENT, SERVER, TO_BROKER, metadata, prefixed
from tests.streaming.feeder.test_feeder import FakeOutlet, batches

PLAIN, OTHER = 9092, 9093
OF_EVERY_LINE = {"time", "level", "event"}
TLS = bytes.fromhex("16030100a5010000a10303")


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
    """Nor if the clients fall silent for some minutes."""
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
    """The bytes of both ports, over the fast path and over the slow one."""
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
