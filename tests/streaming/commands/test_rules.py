"""`kipwatch rules`: all rules, one line each; one rule as its page."""

from __future__ import annotations

import json

from expectations.rules.catalogue import RULES
from tests.streaming.commands.ran import Kipwatch


def test_the_list_names_every_rule(kipwatch: Kipwatch) -> None:
    ran = kipwatch("rules")
    assert ran.status == 0
    assert all(f"{rule.id} " in ran.output for rule in RULES)


def test_the_json_holds_every_rule_with_its_page(kipwatch: Kipwatch) -> None:
    described = json.loads(kipwatch("rules", "--json").output)
    assert [rule["id"] for rule in described] == [rule.id for rule in RULES]
    assert [rule["page"] for rule in described] == [rule.page for rule in RULES]


def test_one_rule_is_explained(kipwatch: Kipwatch) -> None:
    """Its page, and the sentence of the KIP."""
    output = kipwatch("rules", "kip1313/instance-id-zero").output
    assert "kip1313/instance-id-zero" in output
    assert "KIP-1313" in output
    for heading in (
        "Why it matters",
        "Example",
        "What to do",
        "What it does not cover",
        "What a finding says",
    ):
        assert heading in output
    (described,) = json.loads(kipwatch("rules", "kip1313/instance-id-zero", "--json").output)
    assert described["requirement"].startswith("A connection whose first request uses header v3")
    assert described["readings"] == ["shipped", "text", "tagged"]
    assert described["message"] in " ".join(output.split())
    assert "--spec kip1313=tagged" in output


def test_a_family_lists_its_rules(kipwatch: Kipwatch) -> None:
    output = kipwatch("rules", "kip35").output
    assert all((f"{rule.id} " in output) == (rule.family == "kip35") for rule in RULES)


def test_an_unknown_rule_is_answered_with_the_nearest_name(kipwatch: Kipwatch) -> None:
    ran = kipwatch("rules", "kip35/range-inverte")
    assert ran.status == 2
    assert (
        ran.errors == "kipwatch: there is no rule 'kip35/range-inverte'; did you mean kip35/range-inverted?\n"
    )
