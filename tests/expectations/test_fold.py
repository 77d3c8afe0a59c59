"""Folding changes no judgement, whatever the size of the window."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.frame.record import Record
from tests.exchange import ID_A, ID_B, SOFTWARE, ZERO_ID, Exchange, advertisement

PRODUCE_V2 = bytes.fromhex("0000000200000009ffff")


def beat(exchange: Exchange, member_id: str, epoch: int) -> Record:
    """A heartbeat."""
    body = {"groupId": "g", "memberId": member_id, "memberEpoch": epoch}
    return exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")


def malform_name(exchange: Exchange) -> None:
    """A software name that is refused."""
    body = SOFTWARE | {"clientSoftwareName": "-x"}
    exchange.answer(exchange.request("ApiVersions", 4, body, client_id="app"), advertisement(42))


STEPS: dict[str, Callable[[Exchange], object]] = {
    "plain": lambda exchange: exchange.request("Metadata", 14, instance_id=ID_A),
    "old header": lambda exchange: exchange.request("Metadata", 12, client_id="app"),
    "zero ID": lambda exchange: exchange.request("Metadata", 14, instance_id=ZERO_ID),
    "other ID": lambda exchange: exchange.request("Metadata", 14, instance_id=ID_B),
    "repeat": lambda exchange: exchange.request("Metadata", 14, instance_id=ID_A, client_id="app"),
    "settled": lambda exchange: exchange.request("Metadata", 12, client_id="app", settled=True),
    "out of range": lambda exchange: exchange.request("Produce", 2, settled=True, frame=PRODUCE_V2),
    "beat A": lambda exchange: beat(exchange, "A", 1),
    "beat B": lambda exchange: beat(exchange, "B", 1),
    "leave": lambda exchange: beat(exchange, "A", -1),
    "answer": lambda exchange: exchange.answer(beat(exchange, "A", 1), {"memberId": "A"}),
    "negotiate": lambda exchange: exchange.negotiate(client_id="app"),
    "malformed name": malform_name,
    "gap": lambda exchange: exchange.gap(),
    "wait": lambda exchange: exchange.wait(2),
}


SCRIPTS = st.lists(st.sampled_from(sorted(STEPS)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(SCRIPTS, st.integers(1, 12), st.booleans(), st.booleans())
def test_the_size_of_the_window_changes_nothing(
    steps: list[str], size: int, mid_stream: bool, closed: bool
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    for step in steps:
        STEPS[step](exchange)
    if closed:
        exchange.close()
    whole, windowed, single = exchange.judge(), exchange.judge(size), exchange.judge(1)
    assert windowed.checks == whole.checks == single.checks
    for outcome in (windowed, single):
        assert {f.id: (f.likeness(), f.level, f.message) for f in outcome.findings} == {
            f.id: (f.likeness(), f.level, f.message) for f in whole.findings
        }


def test_steady_traffic_folds_to_a_few_observations() -> None:
    exchange = Exchange()
    for _ in range(500):
        exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    (window,) = exchange.windows()
    assert [observation.count for observation in window.observations] == [1, 1, 499]


def test_a_replayed_window_is_passed_over() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 6, SOFTWARE, instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_B, client_id="app")
    once = exchange.judge()
    exchange.records += exchange.records
    assert exchange.judge(size=3).checks == once.checks
