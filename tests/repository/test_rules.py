"""Every rule is a page that a person can act on."""

from __future__ import annotations

import re

import pytest

from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES
from expectations.rules.packs import faults


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_the_form_of_one(rule: Rule) -> None:
    assert list(faults(rule)) == []


def test_a_rule_names_its_kip() -> None:
    assert all(re.fullmatch(r"KIP-\d+|wire", rule.kip) for rule in RULES)
