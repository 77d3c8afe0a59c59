"""The signs of the matrix: only violations are called violated, with and without colour."""

from __future__ import annotations

import pytest

from expectations.report.coverage import Coverage
from expectations.report.matrix import LEGEND, cell_text
from expectations.rules.catalogue import RULES


@pytest.mark.parametrize(("level", "sign"), [("violation", "✕"), ("improvement", "!"), ("information", "i")])
def test_each_level_has_a_sign_of_its_own(level: str, sign: str) -> None:
    rules = [rule.id for rule in RULES if rule.level == level]
    assert rules
    assert {cell_text(Coverage(rule, 6, 3, 0)) for rule in rules} == {f"3/9 {sign}"}
    assert f"{sign} " in LEGEND
