"""The reading of a KIP is chosen by family, and every rule of it is judged by that reading."""

from __future__ import annotations

import pytest

from expectations.rules.base.rule import Spec
from expectations.rules.catalogue import RULES
from expectations.rules.readings import READINGS, read_choices, rules_read_as
from tests.exchange import ID_A, Exchange


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
    body = {"groupId": "g", "memberId": "", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 2, body, client_id="app", instance_id=ID_A)
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
