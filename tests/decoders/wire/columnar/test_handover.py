"""A connection that went through a lane and came back holds what it held, and nothing can be forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decoders.wire.assembly import Assembly, AssemblyState
from decoders.wire.columnar.handover import hand_back, take_over
from decoders.wire.columnar.lanes import Lanes
from decoders.wire.connection import Connection
from decoders.wire.dialogue import Dialogue
from decoders.wire.framing import Framer, Step
from decoders.wire.pairing import AnswersOwed
from decoders.wire.stream import Chunk, Stream
from decoders.wire.tracker import Tracker
from tests.decoders.wire.columnar.equality import packets_between
from tests.decoders.wire.conversation import SCHEMAS
from tests.decoders.wire.test_reassembly import EVENTS

GIVEN = {
    Connection: {"client", "server", "initial_sequence", "_recorder", "ledger", "_dialogue"},
    Dialogue: {"_evidence", "_ledger", "_recorder", "_place", "_framers"},
    Framer: {"step", "_ledger", "_opens", "_resumes", "_is_foreign", "_max_frame"},
    Stream: {"_ledger"},
    AnswersOwed: set[str](),
    Assembly: {"_max_frame"},
}
"""What a connection is made with, or keeps while a lane stands for it."""
EMPTY = {
    Connection: {"is_closed", "_first_to_close"},
    Dialogue: {"_raw_tokens"},
    Framer: {"_candidate", "_candidate_chunks"},
    Stream: {"_held", "_held_cost", "_end"},
    AnswersOwed: set[str](),
    Assembly: set[str](),
}
"""What is False, None, zero or empty of every connection that is calm."""
HANDED_OVER = {
    Connection: {"last_seen_at", "_last_position", "accounted", "_streams"},
    Dialogue: {"_owed", "_advertised", "_is_kafka"},
    Framer: {"_assembly"},
    Stream: {"_next", "_next_sequence"},
    AnswersOwed: {"_queue", "_waiting_ids", "_in_order", "_latest_asked", "_last_before_loss", "_ids_repeat"},
    Assembly: {"size", "_first", "_bytes", "_passed"},
}


def calm_connections() -> list[Connection]:
    """The same conversation after each packet after which it is calm."""
    packets = packets_between(EVENTS, segment=50, close=False)
    found = []
    for count in range(1, len(packets)):
        tracker = Tracker(SCHEMAS, ports={9092}, run=7)
        for packet in packets[:count]:
            tracker.feed(packet)
        found += [connection for connection in tracker.connections if connection.is_calm]
    return found


CALM = calm_connections()


def parts(connection: Connection) -> list[Any]:
    dialogue = connection._dialogue
    framers = list(dialogue._framers.values())
    assemblies = [framer._assembly for framer in framers if framer._assembly]
    return [connection, dialogue, dialogue._owed, *framers, *connection._streams.values(), *assemblies]


def test_each_attribute_is_handed_over_or_there_is_a_reason() -> None:
    seen = set()
    for part in (part for connection in CALM for part in parts(connection)):
        kind = type(part)
        assert vars(part).keys() == GIVEN[kind] | EMPTY[kind] | HANDED_OVER[kind]
        assert not any(getattr(part, name) for name in EMPTY[kind])
        seen.add(kind)
    assert seen == HANDED_OVER.keys()


def test_a_lane_gives_back_what_it_took() -> None:
    waited = begun = 0
    for connection in CALM:
        before, lanes = connection.snapshot(), Lanes()
        content = take_over(connection, lanes, lanes.acquire(), True)
        assert content is not None
        data = np.frombuffer(bytearray(b"".join(content)), np.uint8)
        for direction, piece in enumerate(content):
            row = lanes.streams[0, direction]
            row["start"], row["filled"] = direction * len(content[0]), len(piece)
        hand_back(lanes, 0, connection, data)
        assert connection.snapshot() == before
        waited += bool(before.dialogue.owed.waiting)
        begun += any(before.dialogue.frames.values())
    assert waited
    assert begun


@pytest.mark.parametrize("size", range(9))
def test_a_frame_comes_together_alike_from_a_snapshot(size: int) -> None:
    content = (8).to_bytes(4) + bytes(range(4))
    chunk = Chunk(0, content[:size], 5, 6, 7, starts_segment=True)
    assembly = Assembly(chunk, 100)
    assembly.add(content[: min(size, 4)])
    assembly.add(content[4:size])
    state = assembly.snapshot()
    assert isinstance(state, AssemblyState)
    assert Assembly.of(state, 100).snapshot() == state
    assert Assembly.of(state, 100).wanted == assembly.wanted


def test_who_seeks_is_not_calm() -> None:
    assert all(framer.step is not Step.SEEKING for one in CALM for framer in one._dialogue._framers.values())
