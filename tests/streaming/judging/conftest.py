"""Lets automata learn as fast as tests need it."""

from __future__ import annotations

import pytest

from expectations.judging import automaton


@pytest.fixture
def transitions_are_learnt_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an automaton has not learnt is judged once and learnt then, however much that is."""
    monkeypatch.setattr(automaton, "LEARNT_AT", 1)
    monkeypatch.setattr(automaton, "CREDIT", 1 << 20)
