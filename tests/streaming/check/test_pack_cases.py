"""The cases of a pack are judged in three ways, and in each of them on all that connections claim."""

from __future__ import annotations

import dataclasses

import pytest

from expectations.conversation.observation import Window
from expectations.judging import automaton
from expectations.judging.judge import ConnectionState, Judge
from expectations.judging.outcome import Outcome
from expectations.judging.tracing import learn
from streaming.check.pack import faults_of_case
from tests.cases.notation import Case
from tests.cases.test_cases import CASES

OF_IDENTITIES = [case for case in CASES if case.rule == "kip1313/instance-id-shared"][::4]


@pytest.mark.parametrize("case", OF_IDENTITIES, ids=[case.title for case in OF_IDENTITIES])
def test_cases_of_an_identity_rule_yield_the_same_by_the_automaton(case: Case) -> None:
    assert not list(faults_of_case(case))


def test_a_case_that_the_automaton_judges_otherwise_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told by what it has learnt, which takes some repetitions."""
    monkeypatch.setattr(automaton, "learn", lambda *given: learn(*given)._replace(claims=()))
    faults = [fault for case in OF_IDENTITIES for fault in faults_of_case(case)]
    assert faults
    assert all(fault.startswith("judged by the automaton, it yields: ") for fault in faults)


def test_a_case_that_is_judged_otherwise_frame_by_frame_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge.judge

    def judge_several(self: Judge, state: ConnectionState, window: Window) -> Outcome:
        return judge(self, state, window) if len(window.observations) > 1 else Outcome()

    monkeypatch.setattr(Judge, "judge", judge_several)
    (fault,) = faults_of_case(OF_IDENTITIES[0])
    assert fault.startswith("judged frame by frame, it yields: ")


def test_a_case_that_expects_something_else_is_a_fault() -> None:
    (case, *_) = OF_IDENTITIES
    (fault,) = faults_of_case(dataclasses.replace(case, verdicts="conforms 7"))
    assert fault.startswith("judged as a whole, it yields: ")
