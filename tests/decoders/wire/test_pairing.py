"""Answers meet their requests in order, and by correlation ID where the order is not known."""

from __future__ import annotations

from decoders.frame.record import Pairing
from decoders.wire.pairing import MAX_AGE, MAX_IN_FLIGHT, RequestInFlight, RequestsInFlight


def owed(number: int, correlation_id: int | None = None) -> RequestInFlight:
    return RequestInFlight(number, number if correlation_id is None else correlation_id, 3, 9, 0)


def asking(*numbers: int) -> RequestsInFlight:
    waiting = RequestsInFlight()
    for number in numbers:
        waiting.add(owed(number), certain=True)
    return waiting


def test_answers_in_order_are_matched() -> None:
    waiting = asking(1, 2)
    assert waiting.pair(1) == (Pairing.MATCHED, owed(1))
    assert waiting.pair(2) == (Pairing.MATCHED, owed(2))
    assert waiting.pair(2) == (Pairing.UNOWED, None)


def test_equal_and_falling_correlation_ids_are_matched_in_order() -> None:
    waiting = RequestsInFlight()
    for sequence, correlation_id in enumerate([5, 5, 4, -1]):
        waiting.add(owed(sequence, correlation_id), certain=True)
    answers = [waiting.pair(correlation_id) for correlation_id in (5, 5, 4, -1)]
    assert [(pairing, request and request.sequence) for pairing, request in answers] == [
        (Pairing.MATCHED, sequence) for sequence in range(4)
    ]


def test_an_answer_out_of_order_is_foreign_and_the_others_still_match() -> None:
    waiting = asking(1, 2, 3)
    assert waiting.pair(2) == (Pairing.FOREIGN, owed(2))
    assert waiting.pair(1) == (Pairing.MATCHED, owed(1))
    assert waiting.pair(3) == (Pairing.MATCHED, owed(3))


def test_a_correlation_id_that_nobody_asked_with_is_accused_once() -> None:
    waiting = asking(1, 2)
    assert waiting.pair(99) == (Pairing.FOREIGN, owed(1))
    assert waiting.pair(1) == (Pairing.UNKNOWN, None)
    assert waiting.pair(2) == (Pairing.MATCHED, owed(2))
    assert waiting.pair(98) == (Pairing.UNKNOWN, None)
    waiting.add(owed(3), certain=True)
    assert waiting.pair(3) == (Pairing.MATCHED, owed(3))
    assert waiting.pair(98) == (Pairing.UNOWED, None)


def test_after_a_loss_nothing_is_accused_until_a_later_request_is_matched() -> None:
    waiting = asking(1, 2, 3)
    waiting.note_loss()
    assert waiting.pair(99) == (Pairing.UNKNOWN, None)
    assert waiting.pair(2) == (Pairing.MATCHED, owed(2))
    assert waiting.pair(1) == (Pairing.UNKNOWN, None)
    waiting.add(owed(4), certain=True)
    waiting.add(owed(5), certain=True)
    assert waiting.pair(4) == (Pairing.MATCHED, owed(4))
    assert waiting.pair(1) == (Pairing.FOREIGN, owed(5))


def test_an_id_that_a_lost_request_repeated_accuses_nobody() -> None:
    """The answer belongs to the lost request and is taken for that of the earlier one."""
    waiting = asking(2, 20)
    waiting.note_loss()
    assert waiting.pair(2) == (Pairing.MATCHED, owed(2))
    waiting.add(owed(21, correlation_id=4), certain=True)
    assert waiting.pair(4) == (Pairing.MATCHED, owed(21, correlation_id=4))


def test_a_client_that_repeats_its_ids_is_not_matched_by_id() -> None:
    waiting = RequestsInFlight()
    for sequence in (1, 2):
        waiting.add(owed(sequence, correlation_id=0), certain=True)
    waiting.note_loss()
    waiting.add(owed(3, correlation_id=0), certain=True)
    for _ in range(5):
        assert waiting.pair(0) == (Pairing.UNKNOWN, None)


def test_requests_lost_in_the_middle_excuse_what_follows_and_not_what_came_before() -> None:
    waiting = asking(1)
    waiting.note_loss()
    waiting.add(owed(2), certain=True)
    assert waiting.pair(1) == (Pairing.MATCHED, owed(1))
    assert waiting.pair(77) == (Pairing.UNKNOWN, None)
    assert waiting.pair(2) == (Pairing.MATCHED, owed(2))
    assert waiting.pair(77) == (Pairing.UNOWED, None)


def test_a_request_that_may_be_owed_nothing_is_matched_or_passed_over() -> None:
    for answers in ([2, 3], [3]):
        waiting = RequestsInFlight()
        waiting.add(owed(2), certain=False)
        waiting.add(owed(3), certain=True)
        assert {waiting.pair(number)[0] for number in answers} == {Pairing.MATCHED}


def test_too_many_unanswered_requests_are_given_up_without_accusation() -> None:
    waiting = asking(*range(MAX_IN_FLIGHT), 50_000)
    assert waiting.pair(0) == (Pairing.UNKNOWN, None)
    assert waiting.pair(50_000) == (Pairing.MATCHED, owed(50_000))


def test_an_old_unanswered_request_is_given_up_without_accusation() -> None:
    waiting = RequestsInFlight()
    waiting.add(RequestInFlight(1, 1, 3, 9, 0), certain=True)
    waiting.add(RequestInFlight(2, 2, 3, 9, MAX_AGE), certain=True)
    assert waiting.find(1)
    waiting.add(RequestInFlight(3, 3, 3, 9, MAX_AGE + 1), certain=True)
    assert waiting.find(1) is None
    assert waiting.pair(2)[0] is Pairing.MATCHED
    assert waiting.pair(3)[0] is Pairing.MATCHED
    assert waiting.held == 0
