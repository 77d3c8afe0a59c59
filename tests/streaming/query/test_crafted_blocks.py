"""Whatever a stranger writes into a block, the query reads or refuses it, and goes on.

A record that raises would end the query, and so would each restart, which reads it again.
"""

from __future__ import annotations

from typing import Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Direction, Endpoint, Record
from expectations.judging.terms import Terms
from tests.decoders.frame.columnar.test_blocks import NAMES, RECORDS
from tests.examples import examples
from tests.exchange import ID_A, SECOND, SOFTWARE, Exchange
from tests.expectations.conversation.columnar.test_windows import unheard
from tests.streaming.query.stand_in import StandIn

_ENDPOINTS: Final = st.sampled_from([Endpoint("10.0.0.1:40000"), Endpoint("[::1]:0")])


def _frames() -> list[bytes]:
    """Frames of an ordinary connection, and some that are none."""
    exchange = Exchange()
    exchange.negotiate(client_id="app")
    exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    heartbeat = {"groupId": "g", "memberId": "4vGZ0000000000000000Aw", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 1, heartbeat, client_id="app")
    exchange.request("ApiVersions", 6, SOFTWARE, client_id="other", instance_id=ID_A)
    return [record.frame for record in exchange.records if record.frame] + [b"", b"\0\1", b"\xff" * 40]


CRAFTED: Final = st.builds(
    msgspec.structs.replace,
    RECORDS,
    frame=st.sampled_from(_frames()) | st.binary(max_size=64),
    captured_at=st.sampled_from([0, 1, 1_000 * SECOND, 1_001 * SECOND, (1 << 62) - 1]),
    sequence=st.integers(0, 30) | st.just((1 << 62) - 1),
    paired_sequence=st.integers(0, 30),
    paired_api_key=st.sampled_from([-1, 3, 18, 68, 32_767]),
    paired_api_version=st.sampled_from([-1, 0, 1, 4, 12]),
    client=_ENDPOINTS,
    server=_ENDPOINTS,
    cluster=st.just("") | NAMES,
)


@examples(150)
@given(st.lists(CRAFTED, min_size=1, max_size=30), st.integers(1, 30))
def test_the_query_goes_on(records: list[Record], size: int) -> None:
    query = StandIn(Terms())
    for begin in range(0, len(records), size):
        query.process(records[begin : begin + size], size)
    query.settle()


def test_an_answer_of_a_length_that_no_frame_can_have_ends_nothing() -> None:
    """A tracker reads lengths of 32 bits, a block may claim more."""
    exchange = Exchange()
    exchange.request("Metadata", 12, client_id="app")
    exchange.invalid_size(1 << 33, Direction.TO_CLIENT)
    query = StandIn(Terms())
    query.process(unheard(exchange.records), len(exchange.records))
    query.settle()
    assert query.checks["wire/frame-size-invalid", "violates"] == 1
