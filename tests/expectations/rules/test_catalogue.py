"""The catalogue: each rule is found by its file, judges something, and is read as its family is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from expectations import rules
from expectations.rules.base.rule import METHODS, IdentityRule, Rule, Spec
from expectations.rules.catalogue import (
    BASE,
    READINGS,
    RULE_STATES,
    RULES,
    read_choices,
    rule_named,
    rules_read_as,
    state_reader,
)
from expectations.rules.packs import faults
from tests.exchange import ID_A, Exchange

FOLDER = Path(rules.__file__).parent


def test_every_file_is_a_rule_and_every_rule_a_file() -> None:
    """`kip_1313/instance_id_zero.py` is `kip1313/instance-id-zero`."""
    files = [
        path for path in FOLDER.glob("*/*.py") if path.parent.name != BASE and not path.name.startswith("_")
    ]
    ids = {f"{path.parent.name.replace('_', '')}/{path.stem.replace('_', '-')}" for path in files}
    assert ids == {rule.id for rule in RULES}
    assert len(RULES) == len(files)


def test_rules_stand_in_the_order_of_their_ids() -> None:
    assert [rule.id for rule in RULES] == sorted(rule.id for rule in RULES)


def test_a_rule_is_found_by_its_id_and_no_other_way() -> None:
    assert all(rule_named(rule.id) is rule for rule in RULES)
    with pytest.raises(KeyError):
        rule_named("kip1313/nothing")


def test_the_family_names_the_kip() -> None:
    assert {rule.kip for rule in RULES if rule.id.startswith("kip")} == {
        "KIP-1313",
        "KIP-1082",
        "KIP-511",
        "KIP-35",
        "KIP-1242",
    }
    assert rule_named("wire/malformed-request").kip == "wire"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_the_form_of_one(rule: Rule) -> None:
    assert list(faults(rule)) == []


def test_what_an_offence_may_also_break_is_told_on_its_page() -> None:
    for rule in RULES:
        assert rule.id not in rule.implies
        for implied in rule.implies:
            assert rule_named(implied).id in rule.page


def test_every_rule_has_its_own_state_on_every_connection() -> None:
    one, other = RULE_STATES(), RULE_STATES()
    for rule in RULES:
        state_in = state_reader(rule)
        assert type(state_in(one)) is rule.State
        if rule.State.__struct_fields__:
            assert state_in(one) is not state_in(other)


def test_a_rule_that_remembers_nothing_is_not_stored() -> None:
    """States of millions of connections are stored, so empty ones must not be encoded."""
    remembering = [rule for rule in RULES if rule.State.__struct_fields__]
    assert len(RULE_STATES.__struct_fields__) == len(remembering) < len(RULES)
    assert len(msgspec.msgpack.encode(RULE_STATES())) < 64 * len(remembering)


def test_every_rule_judges_something() -> None:
    """A method with a misspelt name is never called."""
    for rule in RULES:
        assert rule.kinds or isinstance(rule, IdentityRule), rule.id
        methods = {name for name in dir(rule) if name.startswith("on_")}
        assert methods == set(METHODS.values()), rule.id


def test_released_kafka_applies_unless_another_reading_is_chosen() -> None:
    assert {rule.spec for rule in RULES} == {rule.spec for rule in rules_read_as({})} == {Spec.SHIPPED}


def test_a_choice_is_one_for_its_family_alone() -> None:
    rules = rules_read_as(read_choices(["kip1082=text", "kip1313=tagged"]))
    read = {rule.family: rule.spec for rule in rules}
    assert read["kip1082"] is Spec.TEXT and read["kip1313"] is Spec.TAGGED
    assert {spec for family, spec in read.items() if family not in ("kip1082", "kip1313")} == {Spec.SHIPPED}
    assert [rule.id for rule in rules] == [rule.id for rule in RULES]


def test_a_finding_names_its_reading() -> None:
    exchange = Exchange()
    exchange.beat("", 0, 2, instance_id=ID_A)
    for choices, spec in (([], "shipped"), (["kip1082=text"], "text")):
        (finding,) = exchange.judge(rules=rules_read_as(read_choices(choices))).findings
        assert (finding.rule, finding.spec) == ("kip1082/member-id-empty", spec)


def test_every_kip_with_rules_has_readings() -> None:
    assert set(READINGS) == {rule.family for rule in RULES if rule.family.startswith("kip")}


@pytest.mark.parametrize(
    "choice", ["kip1082", "kip9=text", "kip1082=tagged", "kip1082=", "=text", "wire=text"]
)
def test_a_choice_that_is_none_is_refused_in_words(choice: str) -> None:
    with pytest.raises(ValueError, match=r"names no (KIP|reading)"):
        read_choices([choice])
