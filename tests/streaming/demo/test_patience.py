"""The demo waits as long as anything moves."""

from __future__ import annotations

from streaming.demo.patience import NOTED_SECONDS, STALLED_SECONDS, Patience


def test_what_moves_is_waited_for_however_slow_it_is() -> None:
    patience = Patience(0.0, STALLED_SECONDS)
    for step in range(1, 20):
        now = step * (STALLED_SECONDS - 1)
        assert not patience.is_over(now)
        patience.observe(("frames", step), now)


def test_what_stands_still_is_given_up() -> None:
    patience = Patience(0.0, STALLED_SECONDS)
    patience.observe("the same", 10.0)
    patience.observe("the same", STALLED_SECONDS)
    assert not patience.is_over(10.0 + STALLED_SECONDS)
    assert patience.is_over(10.1 + STALLED_SECONDS)


def test_a_note_says_for_how_long_nothing_has_moved() -> None:
    patience = Patience(0.0, 300.0)
    assert patience.note(NOTED_SECONDS - 1) == ""
    assert patience.note(75.0) == "nothing has moved for 75 s, the demo gives up after 300 s"
