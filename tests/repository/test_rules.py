"""Every rule is a page that a person can act on."""

from __future__ import annotations

import re
import string

import pytest

from expectations.rules.base.rule import Rule
from expectations.rules.catalogue import RULES

HEADINGS = ["## Why it matters", "## Example", "## What to do", "## What it does not cover"]
EVERY = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@EVERY
def test_a_page_has_its_headings_in_order_and_something_under_each(rule: Rule) -> None:
    assert re.findall(r"^## .*$", rule.page, flags=re.MULTILINE) == HEADINGS
    for part in re.split(r"^## .*$", rule.page, flags=re.MULTILINE):
        assert len(part.split()) >= 5


@EVERY
def test_a_page_begins_with_what_is_checked_in_one_line(rule: Rule) -> None:
    assert rule.summary.startswith("Checks ")
    assert rule.summary.endswith(".")
    assert rule.page.splitlines()[1] == ""


@EVERY
def test_a_rule_says_what_the_kip_demands_and_where(rule: Rule) -> None:
    assert rule.requirement.endswith(".")
    assert len(rule.section) > 3
    assert re.fullmatch(r"KIP-\d+|wire", rule.kip)


@EVERY
def test_a_message_is_one_plain_line(rule: Rule) -> None:
    """It is put behind level, rule and connection, so it begins small and ends without a dot."""
    names = [name for _, name, _, _ in string.Formatter().parse(rule.message) if name is not None]
    assert all(name.isidentifier() for name in names)
    assert rule.message.isprintable()
    assert not rule.message.endswith(".")
    assert not rule.message[0].isupper()
