"""The ledger: every rule rests on a sentence, and every sentence has a rule or a reason."""

from __future__ import annotations

import re

import pytest

from expectations.requirements.sentences import SHIPPED, Sentence, sentences_of, tables
from expectations.rules.catalogue import RULES

ROWS = [(table.source, sentence) for table in tables() for sentence in table.sentence]
EVERY_ROW = pytest.mark.parametrize(
    ("source", "sentence"), ROWS, ids=[f"{source} {row.says[:40]}" for source, row in ROWS]
)


def test_the_sources_are_the_five_kips_and_released_kafka() -> None:
    assert {table.source for table in tables()} == {
        "KIP-1313",
        "KIP-1082",
        "KIP-511",
        "KIP-35",
        "KIP-1242",
        SHIPPED,
    }


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_rule_judges_a_sentence(rule: str) -> None:
    assert [*sentences_of(rule)]


def test_the_kip_of_a_rule_or_released_kafka_says_what_the_rule_demands() -> None:
    for rule in RULES:
        assert {source for source, _ in sentences_of(rule.id)} & {rule.kip, SHIPPED}, rule.id


@EVERY_ROW
def test_a_sentence_has_rules_or_the_reason_why_there_are_none(source: str, sentence: Sentence) -> None:
    assert bool(sentence.rules) != bool(sentence.not_observable)


@EVERY_ROW
def test_the_rules_of_a_sentence_exist_and_are_named_once(source: str, sentence: Sentence) -> None:
    assert set(sentence.rules) <= {rule.id for rule in RULES}
    assert len(set(sentence.rules)) == len(sentence.rules)


@EVERY_ROW
def test_what_is_said_is_a_sentence_with_a_place(source: str, sentence: Sentence) -> None:
    assert re.fullmatch(r"[A-Z].*\.", sentence.says)
    assert len(sentence.section) > 3


def test_no_sentence_stands_twice() -> None:
    said = [(source, sentence.section, sentence.says) for source, sentence in ROWS]
    assert len(set(said)) == len(said)
