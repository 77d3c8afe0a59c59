"""What the feeder's log says of TLS on each port: read, or why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decoders.tls.key_log import KeyLog
from decoders.tls.outcome import Outcome
from decoders.wire.decryption import MAX_KEY_WAIT
from decoders.wire.ledger import Ledger
from streaming.feeder.feeder import Feeder
from streaming.feeder.key_log_files import FollowedKeyLogs
from streaming.feeder.port_watch import LATER
from streaming.feeder.tls_watch import UNREAD, TlsWatch
from streaming.settings.configuration import Configuration
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.conversation import exchanges
from tests.decoders.wire.encrypted import encrypted, packets
from tests.streaming.feeder.test_feeder import FakeOutlet, batches

PORT = 9093


class Watched:
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
def watched(capsys: pytest.CaptureFixture[str]) -> Watched:
    return Watched(capsys)


def test_each_outcome_is_told_once(watched: Watched) -> None:
    assert watched.lines(at=0) == []
    watched.ledger.count_tls(Outcome.READ)
    assert watched.lines(at=1) == [("tls-read", None)]
    for second in range(2, 5):
        watched.ledger.count_tls(Outcome.READ)
        watched.ledger.count_tls(Outcome.UNSUPPORTED_SUITE)
        expected = [("tls-not-read", "unsupported_suite")] if second == 2 else []
        assert watched.lines(at=second) == expected


def test_a_key_log_that_stops_is_told_again_once_nothing_was_read_for_long(watched: Watched) -> None:
    watched.ledger.count_tls(Outcome.NO_KEY)
    assert watched.lines(at=1) == [("tls-not-read", "no_key")]
    watched.ledger.frame(100)
    watched.ledger.count_tls(Outcome.NO_KEY)
    assert watched.lines(at=LATER) == []
    watched.ledger.count_tls(Outcome.NO_KEY)
    assert watched.lines(at=2 * LATER - 1) == []
    assert watched.lines(at=2 * LATER) == [("tls-not-read", "no_key")]
    assert watched.lines(at=9 * LATER) == []


def test_every_outcome_but_read_has_a_reason() -> None:
    assert set(UNREAD) == set(Outcome) - {Outcome.READ}


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
