"""The byte account of each connection is exact, and their sum is the ledger of the capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.framing import MAX_FRAME
from decoders.wire.ledger import Ledger, SkipReason
from decoders.wire.segment import Packet, SocketAddress
from streaming.transcript.text import ByteAccount, accounts
from tests.decoders.wire.columnar.equality import batches_of, interleaved, packets_between
from tests.decoders.wire.conversation import CLIENT, EVENTS, SCHEMAS, feed_all, new_tracker
from tests.examples import examples

OF_NO_CONNECTION = {SkipReason.AFTER_CLOSE, SkipReason.OTHER_PORT, SkipReason.UNORIENTED}


def scalar(packets: Sequence[Packet], **options: object) -> tuple[list[ByteAccount], Ledger]:
    """The accounts of connections by the scalar tracker, and the ledger of the capture."""
    ended: list[ByteAccount] = []
    tracker = new_tracker(on_end=lambda *connection: ended.append(ByteAccount.of(*connection)), **options)
    feed_all(tracker, packets)
    tracker.finish()
    return ended, tracker.ledger


@given(st.integers(1, 6), st.integers(0, 1_000_000_000), st.floats(0, 0.3), st.lists(st.integers(0, 5_000)))
@examples(40)
def test_every_byte_is_in_the_account_of_one_connection(
    clients: int, seed: int, loss: float, cuts: list[int]
) -> None:
    random = Random(seed)
    talks = [
        packets_between(EVENTS, SocketAddress(CLIENT.address, 40_000 + each), segment=60, close=each % 2 == 0)
        for each in range(clients)
    ]
    packets = [packet for packet in interleaved(talks, random) if random.random() >= loss]
    batches = map(PacketBatch.of, batches_of(packets, cuts))
    *accounted, rest = accounts(SCHEMAS, batches, {9092}, MAX_FRAME)
    ended, ledger = scalar(packets)
    assert Counter(map(repr, accounted)) == Counter(map(repr, ended))
    for account in (*accounted, rest):
        assert account.captured == account.framed + sum(account.skipped.values())
    assert rest.client is rest.server is None
    assert rest.skipped.keys() <= OF_NO_CONNECTION
    assert rest.framed == rest.lost == 0
    assert sum(account.captured for account in (*accounted, rest)) == ledger.captured
    assert sum(account.framed for account in accounted) == ledger.framed


def test_what_belongs_to_no_connection_has_an_account_of_its_own() -> None:
    (rest,) = accounts(SCHEMAS, [PacketBatch.of(packets_between(EVENTS))], {1}, MAX_FRAME)
    size = sum(len(data) for _, data in EVENTS)
    assert rest == ByteAccount(None, None, size, 0, {"other-port": size}, 0)
    assert rest.line == f"no connection: {size} captured = 0 framed + {size} other-port; 0 lost"
