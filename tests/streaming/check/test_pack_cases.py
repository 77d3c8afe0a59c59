"""The cases of a pack are judged in three ways, and in each of them on all that connections claim."""

from __future__ import annotations

import dataclasses

import pytest

from streaming.check.pack import faults_of_case
from tests.cases.notation import Case
from tests.cases.test_cases import CASES

OF_IDENTITIES = [case for case in CASES if case.rule == "kip1313/instance-id-shared"][::4]


@pytest.mark.parametrize("case", OF_IDENTITIES, ids=[case.title for case in OF_IDENTITIES])
def test_cases_of_an_identity_rule_yield_the_same_by_the_automaton(case: Case) -> None:
    assert not list(faults_of_case(case))


def test_a_case_that_expects_something_else_is_a_fault() -> None:
    (case, *_) = OF_IDENTITIES
    (fault,) = faults_of_case(dataclasses.replace(case, verdicts="conforms 7"))
    assert fault.startswith("judged as a whole, it yields: ")
