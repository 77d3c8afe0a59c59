"""Segments in their turn take a short way through a connection, and it says the same as the long one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from decoders.frame.record import Direction
from decoders.tls.key_log import KeyLog
from decoders.wire.packet import Packet
from decoders.wire.segment import Segment
from decoders.wire.transport import Transport
from tests.decoders.tls.writer import SUITES, TlsWriter
from tests.decoders.wire.columnar.equality import placed, scalar
from tests.decoders.wire.conversation import EVENTS, exchanges, packets_of
from tests.decoders.wire.encrypted import encrypted
from tests.decoders.wire.encrypted import packets as packets_over_tls
from tests.decoders.wire.test_fuzz_wire import MUTATIONS, mutated, originals

MUTANTS = 500


def both_ways(
    packets: list[Packet], monkeypatch: pytest.MonkeyPatch, *, keys: str = "", **options: Any
) -> int:
    """Assert that records and ledgers are equal, and return how many segments took the short way."""
    taken, is_ordinary = 0, Transport.is_ordinary

    def counted(transport: Transport, direction: Direction, segment: Segment) -> bool:
        nonlocal taken
        verdict = is_ordinary(transport, direction, segment)
        taken += verdict
        return verdict

    said = []
    for way in (counted, lambda *_: False):
        key_log = KeyLog() if keys else None
        if key_log is not None:
            key_log.add(keys)
        with monkeypatch.context() as patch:
            patch.setattr(Transport, "is_ordinary", way)
            said.append(scalar(packets, key_log=key_log, **options))
    assert said[0] == said[1]
    return taken


def test_mutants_of_real_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, taken = originals(), 0
    for seed in range(MUTANTS):
        random = Random(seed)
        packets = placed(mutated(random, random.choice(sources)))
        taken += both_ways(packets, monkeypatch, ports=random.choice([(), (9092,)]))
    assert taken > MUTANTS


@pytest.mark.parametrize("suite", [SUITES[3], SUITES[0]], ids=["TLS 1.3", "TLS 1.2"])
def test_mutants_over_tls(suite: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TlsWriter(*suite)
    sent, taken = packets_over_tls(encrypted(EVENTS, writer, size=80)), 0
    for seed in range(MUTANTS // 5):
        random, packets = Random(seed), list(sent)
        for _ in range(random.randrange(4)):
            random.choice(MUTATIONS)(random, packets)
        taken += both_ways(placed(packets), monkeypatch, keys=writer.key_log)
    assert taken > MUTANTS


def test_requests_and_responses_in_their_turn_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert both_ways(packets_of(exchanges(20)), monkeypatch) >= 40
