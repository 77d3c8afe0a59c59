"""The verdict of the demo: planted offences that are found, other violations, whether two sources agree."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from expectations.judging.finding import Finding
from expectations.rules.base.rule import IdentityRule, Role
from expectations.rules.catalogue import RULES, rule_named
from streaming.demo.demo import offences_found, same_findings, unplanted_violations
from streaming.demo.offences import PLANTED
from streaming.demo.workload import new_member_id
from tests.streaming.captures import violating

PATTERN = violating().judge().findings[0]


PLAYED = {f"127.0.0.1:{port}": planted for port, planted in enumerate(PLANTED)}


def found(rule: str, client: str) -> Finding:
    return msgspec.structs.replace(PATTERN, rule=rule, client=client, level=rule_named(rule).level)


def as_planted() -> list[Finding]:
    """Each planted offence's findings on a connection of its own."""
    return [found(rule, client) for client, planted in PLAYED.items() for rule in sorted(planted.rules)]


def missing(findings: Sequence[Finding]) -> list[str]:
    return [planted.name for planted, is_found in offences_found(findings, PLAYED) if not is_found]


def test_rules_of_every_kip_are_planted_and_all_exist() -> None:
    planted = frozenset().union(*(planted.rules for planted in PLANTED))
    assert planted <= {rule.id for rule in RULES}
    assert {rule_named(rule).family for rule in planted} == {rule.family for rule in RULES}


def test_offences_of_brokers_and_of_several_connections_are_planted() -> None:
    planted = [rule_named(rule) for offence in PLANTED for rule in offence.rules]
    assert any(rule.role is Role.BROKER for rule in planted)
    assert any(isinstance(rule, IdentityRule) for rule in planted)


def test_a_disabled_rule_is_not_missed() -> None:
    """A finding on it counts as not planted."""
    off = "kip1313/instance-id-zero"
    rules = [rule for rule in RULES if rule.id != off]
    left = [finding for finding in as_planted() if finding.rule != off]
    assert all(is_found for _, is_found in offences_found(left, PLAYED, rules))
    assert [
        planted.rules for planted, is_found in offences_found(as_planted(), PLAYED, rules) if not is_found
    ] == [{off}]


def test_the_names_of_offences_are_unique() -> None:
    assert len({planted.name for planted in PLANTED}) == len(PLANTED)


def test_all_that_was_planted_is_found() -> None:
    assert missing(as_planted()) == []
    assert unplanted_violations(as_planted(), PLAYED) == []


def test_without_findings_all_are_missing() -> None:
    assert missing([]) == [planted.name for planted in PLANTED]


@pytest.mark.parametrize("client", PLAYED, ids=lambda client: PLAYED[client].name)
def test_each_planted_offence_is_missed_when_its_connection_is(client: str) -> None:
    """Findings of other connections do not count for it, even of the same rule."""
    left = [finding for finding in as_planted() if finding.client != client]
    assert missing(left) == [PLAYED[client].name]


def test_rules_that_must_be_found_together_are_not_found_apart() -> None:
    together = [planted for planted in PLANTED if len(planted.rules) > 1]
    assert together
    for planted in together:
        apart = [found(rule, rule) for rule in planted.rules]
        assert planted.name in missing(apart)


def test_an_offence_with_more_than_was_planted_is_not_found() -> None:
    """The findings of a planted connection must be exactly those of its rules."""
    client, planted = next(iter(PLAYED.items()))
    assert missing([*as_planted(), found("kip1082/member-id-not-uuid", client)]) == [planted.name]


def test_a_violation_that_was_not_planted_is_found() -> None:
    """On another connection than the planted ones."""
    strange = found("kip35/version-out-of-range", "127.0.0.1:0")
    assert strange in unplanted_violations([*as_planted(), strange], PLAYED)


def test_a_planted_offence_on_another_connection_is_found() -> None:
    """A violation of a real client must not pass for a planted one."""
    stranger = found("kip1082/member-id-empty", "stranger")
    assert stranger in unplanted_violations([*as_planted(), stranger], PLAYED)


def test_an_improvement_that_was_not_planted_is_no_violation() -> None:
    improvement = found("wire/malformed-request", "stranger")
    improvement.level = "improvement"
    assert unplanted_violations([*as_planted(), improvement], PLAYED) == []


def test_sources_agree_in_rule_connection_occurrences_and_context() -> None:
    """IDs, times and evidence may differ."""
    here = as_planted()
    there = [msgspec.structs.replace(finding, id="other", sequence=0) for finding in reversed(here)]
    assert same_findings(here, there)
    assert not same_findings(here, there[:-1])
    assert not same_findings(here, [*there, there[0]])
    for changed in ({"occurrences": 9}, {"client": "h:1"}, {"context": {"a": "b"}}, {"rule": "x"}):
        assert not same_findings(here, [msgspec.structs.replace(there[0], **changed), *there[1:]])


def test_member_ids_are_made_as_kip_1082_recommends() -> None:
    """22 characters of URL-safe base64, never the same."""
    made = {new_member_id() for _ in range(100)}
    assert len(made) == 100
    assert {len(member_id) for member_id in made} == {22}
