"""Folding changes no judgement, whatever the size of the window."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange import ID_A, ID_B, SOFTWARE, ZERO_ID, Exchange, advertisement

STEPS = st.sampled_from(
    ["plain", "old", "zero", "other", "repeat", "settled", "produce", "beat A", "beat B", "leave", "answer"]
    + ["negotiate", "gap", "wait", "name"]
)


def play(exchange: Exchange, step: str) -> None:
    """Add one step."""
    match step.split():
        case ["plain"]:
            exchange.request("Metadata", 14, instance_id=ID_A)
        case ["old"]:
            exchange.request("Metadata", 12, client_id="app")
        case ["zero"]:
            exchange.request("Metadata", 14, instance_id=ZERO_ID)
        case ["other"]:
            exchange.request("Metadata", 14, instance_id=ID_B)
        case ["repeat"]:
            exchange.request("Metadata", 14, instance_id=ID_A, client_id="app")
        case ["settled"]:
            exchange.request("Metadata", 12, client_id="app", settled=True)
        case ["produce"]:
            exchange.request("Produce", 2, settled=True, frame=bytes.fromhex("0000000200000009ffff"))
        case ["beat", member_id]:
            beat(exchange, member_id, 1)
        case ["leave"]:
            beat(exchange, "A", -1)
        case ["answer"]:
            exchange.answer(beat(exchange, "A", 1), {"memberId": "A", "heartbeatIntervalMs": 1000})
        case ["negotiate"]:
            exchange.negotiate(client_id="app")
        case ["gap"]:
            exchange.gap()
        case ["wait"]:
            exchange.wait(2)
        case ["name"]:
            request = exchange.request(
                "ApiVersions", 4, SOFTWARE | {"clientSoftwareName": "-x"}, client_id="app"
            )
            exchange.answer(request, advertisement(42))


def beat(exchange: Exchange, member_id: str, epoch: int):  # type: ignore[no-untyped-def]
    """A heartbeat."""
    body = {"groupId": "g", "memberId": member_id, "memberEpoch": epoch}
    return exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(1, 12), st.booleans(), st.booleans())
def test_the_size_of_the_window_changes_nothing(
    steps: list[str], size: int, mid_stream: bool, closed: bool
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    for step in steps:
        play(exchange, step)
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
