"""The catalogue: every rule is found by its file; rule states take no space until they are used."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from expectations import rules
from expectations.rules.catalogue import BASE, RULE_STATES, RULES, rule_named, state_of

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


def test_what_an_offence_may_also_break_is_told_on_its_page() -> None:
    for rule in RULES:
        assert rule.id not in rule.implies
        for implied in rule.implies:
            assert rule_named(implied).id in rule.page


def test_every_rule_has_its_own_state_on_every_connection() -> None:
    one, other = RULE_STATES(), RULE_STATES()
    for rule in RULES:
        assert type(state_of(one, rule)) is rule.State
        if rule.State.__struct_fields__:
            assert state_of(one, rule) is not state_of(other, rule)


def test_a_rule_that_remembers_nothing_is_not_stored() -> None:
    """States of millions of connections are stored, so empty ones must not be encoded."""
    remembering = [rule for rule in RULES if rule.State.__struct_fields__]
    assert len(RULE_STATES.__struct_fields__) == len(remembering) < len(RULES)
    assert len(msgspec.msgpack.encode(RULE_STATES())) < 64 * len(remembering)
