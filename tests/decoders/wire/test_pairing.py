"""Answers meet their requests in order, and by correlation ID where the order is not known."""

from __future__ import annotations

from decoders.frame.record import Pairing
from decoders.wire.pairing import MAX_OWED, AnswersOwed, Owed


def owed(number: int, correlation_id: int | None = None) -> Owed:
    return Owed(number, number if correlation_id is None else correlation_id, 3, 9)


def asking(*numbers: int) -> AnswersOwed:
    waiting = AnswersOwed()
    for number in numbers:
        waiting.ask(owed(number), certain=True)
    return waiting


def test_answers_in_order_are_matched() -> None:
    waiting = asking(1, 2)
    assert waiting.answer(1) == (Pairing.MATCHED, owed(1))
    assert waiting.answer(2) == (Pairing.MATCHED, owed(2))
    assert waiting.answer(2) == (Pairing.UNOWED, None)


def test_equal_and_falling_correlation_ids_are_matched_in_order() -> None:
    waiting = AnswersOwed()
    for sequence, correlation_id in enumerate([5, 5, 4, -1]):
        waiting.ask(owed(sequence, correlation_id), certain=True)
    answers = [waiting.answer(correlation_id) for correlation_id in (5, 5, 4, -1)]
    assert [(pairing, request and request.sequence) for pairing, request in answers] == [
        (Pairing.MATCHED, sequence) for sequence in range(4)
    ]


def test_an_answer_out_of_order_is_foreign_and_the_others_still_match() -> None:
    waiting = asking(1, 2, 3)
    assert waiting.answer(2) == (Pairing.FOREIGN, owed(2))
    assert waiting.answer(1) == (Pairing.MATCHED, owed(1))
    assert waiting.answer(3) == (Pairing.MATCHED, owed(3))


def test_a_correlation_id_that_nobody_asked_with_is_accused_once() -> None:
    waiting = asking(1, 2)
    assert waiting.answer(99) == (Pairing.FOREIGN, owed(1))
    assert waiting.answer(1) == (Pairing.UNKNOWN, None)
    assert waiting.answer(2) == (Pairing.MATCHED, owed(2))
    assert waiting.answer(3) == (Pairing.UNOWED, None)


def test_after_lost_answers_nothing_is_accused_until_a_match() -> None:
    waiting = asking(1, 2, 3)
    waiting.answers_lost()
    assert waiting.answer(99) == (Pairing.UNKNOWN, None)
    assert waiting.answer(2) == (Pairing.MATCHED, owed(2))
    assert waiting.answer(1) == (Pairing.FOREIGN, owed(3))


def test_requests_lost_in_the_middle_excuse_what_follows_and_not_what_came_before() -> None:
    waiting = asking(1)
    waiting.requests_lost()
    waiting.ask(owed(2), certain=True)
    assert waiting.answer(1) == (Pairing.MATCHED, owed(1))
    assert waiting.answer(77) == (Pairing.UNKNOWN, None)
    assert waiting.answer(2) == (Pairing.MATCHED, owed(2))
    assert waiting.answer(77) == (Pairing.UNOWED, None)


def test_a_request_that_may_be_owed_nothing_is_matched_or_passed_over() -> None:
    for answers in ([2, 3], [3]):
        waiting = AnswersOwed()
        waiting.ask(owed(2), certain=False)
        waiting.ask(owed(3), certain=True)
        assert {waiting.answer(number)[0] for number in answers} == {Pairing.MATCHED}


def test_too_many_unanswered_requests_are_given_up_without_accusation() -> None:
    waiting = asking(*range(MAX_OWED), 50_000)
    assert waiting.answer(0) == (Pairing.UNKNOWN, None)
    assert waiting.answer(50_000) == (Pairing.MATCHED, owed(50_000))
