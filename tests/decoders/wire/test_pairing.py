"""Responses are paired in order, and by correlation ID if the order is not certain."""

from __future__ import annotations

import pytest

from decoders.frame.record import Pairing
from decoders.wire.pairing import COMPARED, MAX_AGE, MAX_IN_FLIGHT, RequestInFlight, RequestsInFlight


def request(number: int, correlation_id: int | None = None) -> RequestInFlight:
    return RequestInFlight(number, number if correlation_id is None else correlation_id, 3, 9, 0)


def queue_of(*numbers: int) -> RequestsInFlight:
    queue = RequestsInFlight()
    for number in numbers:
        queue.add(request(number), certain=True)
    return queue


def test_responses_in_order_are_matched() -> None:
    queue = queue_of(1, 2)
    assert queue.pair(1) == (Pairing.MATCHED, request(1))
    assert queue.pair(2) == (Pairing.MATCHED, request(2))
    assert queue.pair(2) == (Pairing.UNOWED, None)


def test_equal_and_falling_correlation_ids_are_matched_in_order() -> None:
    queue = RequestsInFlight()
    for sequence, correlation_id in enumerate([5, 5, 4, -1]):
        queue.add(request(sequence, correlation_id), certain=True)
    responses = [queue.pair(correlation_id) for correlation_id in (5, 5, 4, -1)]
    assert [(pairing, request and request.sequence) for pairing, request in responses] == [
        (Pairing.MATCHED, sequence) for sequence in range(4)
    ]


def test_a_response_out_of_order_is_foreign_and_the_others_still_match() -> None:
    queue = queue_of(1, 2, 3)
    assert queue.pair(2) == (Pairing.FOREIGN, request(2))
    assert queue.pair(1) == (Pairing.MATCHED, request(1))
    assert queue.pair(3) == (Pairing.MATCHED, request(3))


def test_a_correlation_id_of_no_request_is_foreign_once() -> None:
    queue = queue_of(1, 2)
    assert queue.pair(99) == (Pairing.FOREIGN, request(1))
    assert queue.pair(1) == (Pairing.UNKNOWN, None)
    assert queue.pair(2) == (Pairing.MATCHED, request(2))
    assert queue.pair(98) == (Pairing.UNKNOWN, None)
    queue.add(request(3), certain=True)
    assert queue.pair(3) == (Pairing.MATCHED, request(3))
    assert queue.pair(98) == (Pairing.UNOWED, None)


def test_after_a_loss_nothing_is_foreign_until_a_later_request_is_matched() -> None:
    queue = queue_of(1, 2, 3)
    queue.note_loss()
    assert queue.pair(99) == (Pairing.UNKNOWN, None)
    assert queue.pair(2) == (Pairing.MATCHED, request(2))
    assert queue.pair(1) == (Pairing.UNKNOWN, None)
    queue.add(request(4), certain=True)
    queue.add(request(5), certain=True)
    assert queue.pair(4) == (Pairing.MATCHED, request(4))
    assert queue.pair(1) == (Pairing.FOREIGN, request(5))


def test_after_a_loss_an_id_of_no_request_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests may be in flight, and many such responses in a packet."""
    queue, searched = queue_of(1, 2), list[int]()
    queue.note_loss()
    find = RequestsInFlight.find

    def noted(self: RequestsInFlight, correlation_id: int) -> RequestInFlight | None:
        searched.append(correlation_id)
        return find(self, correlation_id)

    monkeypatch.setattr(RequestsInFlight, "find", noted)
    assert [queue.pair(each) for each in (99, -7, 99)] == [(Pairing.UNKNOWN, None)] * 3
    assert queue.pair(2) == (Pairing.MATCHED, request(2))
    assert searched == [2]


def test_an_id_that_a_lost_request_repeated_makes_no_response_foreign() -> None:
    """The response belongs to the lost request and is paired with the earlier one."""
    queue = queue_of(2, 20)
    queue.note_loss()
    assert queue.pair(2) == (Pairing.MATCHED, request(2))
    queue.add(request(21, correlation_id=4), certain=True)
    assert queue.pair(4) == (Pairing.MATCHED, request(21, correlation_id=4))


def test_a_client_that_repeats_its_ids_is_not_matched_by_id() -> None:
    queue = RequestsInFlight()
    for sequence in (1, 2):
        queue.add(request(sequence, correlation_id=0), certain=True)
    queue.note_loss()
    queue.add(request(3, correlation_id=0), certain=True)
    for _ in range(5):
        assert queue.pair(0) == (Pairing.UNKNOWN, None)


@pytest.mark.parametrize(("count", "pairing"), [(COMPARED, Pairing.MATCHED), (COMPARED + 1, Pairing.UNKNOWN)])
def test_ids_that_fall_count_as_repeated_when_too_many_are_in_flight(count: int, pairing: Pairing) -> None:
    queue = RequestsInFlight()
    for sequence in range(1, count + 1):
        queue.add(request(sequence, correlation_id=-sequence), certain=True)
    queue.note_loss()
    assert queue.pair(-count)[0] is pairing


def test_a_match_with_a_request_before_a_loss_does_not_restore_the_order() -> None:
    queue = queue_of(1)
    queue.note_loss()
    queue.add(request(2), certain=True)
    assert queue.pair(1) == (Pairing.MATCHED, request(1))
    assert queue.pair(77) == (Pairing.UNKNOWN, None)
    assert queue.pair(2) == (Pairing.MATCHED, request(2))
    assert queue.pair(77) == (Pairing.UNOWED, None)


def test_a_request_that_may_expect_no_response_is_matched_or_skipped() -> None:
    for responses in ([2, 3], [3]):
        queue = RequestsInFlight()
        queue.add(request(2), certain=False)
        queue.add(request(3), certain=True)
        assert {queue.pair(number)[0] for number in responses} == {Pairing.MATCHED}


def test_too_many_requests_in_flight_are_discarded_and_nothing_is_foreign() -> None:
    queue = queue_of(*range(MAX_IN_FLIGHT), 50_000)
    assert queue.pair(0) == (Pairing.UNKNOWN, None)
    assert queue.pair(50_000) == (Pairing.MATCHED, request(50_000))


def test_an_old_request_in_flight_is_discarded_and_nothing_is_foreign() -> None:
    queue = RequestsInFlight()
    queue.add(RequestInFlight(1, 1, 3, 9, 0), certain=True)
    queue.add(RequestInFlight(2, 2, 3, 9, MAX_AGE), certain=True)
    assert queue.find(1)
    queue.add(RequestInFlight(3, 3, 3, 9, MAX_AGE + 1), certain=True)
    assert queue.find(1) is None
    assert queue.pair(2)[0] is Pairing.MATCHED
    assert queue.pair(3)[0] is Pairing.MATCHED
    assert queue.held == 0
