"""Every rule is a page that a person can act on."""

from __future__ import annotations

import re
import string

from expectations.rules.catalogue import RULES

HEADINGS = ["## Why it matters", "## Example", "## What to do", "## What it does not cover"]


def test_a_page_has_its_headings_in_order_and_something_under_each() -> None:
    for rule in RULES:
        assert re.findall(r"^## .*$", rule.page, flags=re.MULTILINE) == HEADINGS, rule.id
        for part in re.split(r"^## .*$", rule.page, flags=re.MULTILINE):
            assert len(part.split()) >= 5, rule.id


def test_a_page_begins_with_what_is_checked_in_one_line() -> None:
    for rule in RULES:
        assert rule.summary.startswith("Checks "), rule.id
        assert rule.summary.endswith("."), rule.id
        assert rule.page.splitlines()[1] == "", rule.id


def test_a_rule_says_what_the_kip_demands_and_where() -> None:
    for rule in RULES:
        assert rule.requirement.endswith("."), rule.id
        assert len(rule.section) > 3, rule.id
        assert re.fullmatch(r"KIP-\d+|wire", rule.kip), rule.id


def test_a_rule_says_what_it_needs_to_be_exercised() -> None:
    """It continues a sentence: in lower case, without a period at the end."""
    for rule in RULES:
        assert len(rule.needs) > 8, rule.id
        assert not rule.needs.endswith("."), rule.id


def test_a_message_is_one_plain_line() -> None:
    """It is printed after level, rule and connection: in lower case, without a period at the end."""
    for rule in RULES:
        names = [name for _, name, _, _ in string.Formatter().parse(rule.message) if name is not None]
        assert all(name.isidentifier() for name in names), rule.id
        assert rule.message.isprintable(), rule.id
        assert not rule.message.endswith("."), rule.id
        assert not rule.message[0].isupper(), rule.id
