"""Decisions on rules: a suppression applies to what it names, until its day, and never silently.

A reloaded configuration changes decisions, and names what else would need a restart.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from expectations.conversation.bodies import NO_NODE, ClusterDescription
from expectations.judging.finding import Finding, Suppressed
from expectations.rules.base.rule import Level
from expectations.rules.catalogue import RULES
from streaming.settings.configuration import Configuration, Listener, Suppression
from streaming.settings.decisions import AddressPattern, Decisions, SuppressionUse, take_over
from streaming.user_error import UserError
from tests.streaming.captures import violating

FINDINGS = violating().judge().findings
RULE = "kip1313/instance-id-changed"
UNTIL = date(2026, 6, 30)
CURRENT = Configuration(bootstrap="kafka:9092", buckets=8, disable=[RULE])


def decided(decisions: Decisions) -> list[Finding]:
    return [decisions.decide(finding) for finding in FINDINGS]


def suppressed_by(today: date = UNTIL, **what: Any) -> tuple[list[str], SuppressionUse]:
    """The rules whose findings one suppression covers, and its use."""
    suppression = Suppression(**{"rule": RULE, "reason": "known", "until": UNTIL, **what})
    decisions = Decisions(Configuration(suppress=[suppression]), lambda: today)
    found = decided(decisions)
    (use,) = decisions.uses(found)
    return [finding.rule for finding in found if finding.suppressed == Suppressed("known", "2026-06-30")], use


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"client_software_name": "RP Console"},
        {"client": "10.0.0.1"},
        {"client": "10.0.0.1:40000", "broker": "10.0.0.2:9092"},
        {"client_id": "app", "broker": "10.0.0.2"},
        {"client": "10.0.0.0/24", "broker": "0.0.0.0/0"},
        {"client_software_name": "RP *", "client_id": "a?p"},
        {"rule": "kip1313/instance-id-*"},
    ],
    ids=str,
)
def test_a_finding_is_suppressed_if_all_given_fields_match(what: dict[str, Any]) -> None:
    rules, use = suppressed_by(**what)
    assert rules == [RULE]
    assert (use.findings, use.warning) == (1, "")


@pytest.mark.parametrize(
    "what",
    [
        {"client_software_name": "another"},
        {"client": "10.0.0.9"},
        {"client_id": "app", "broker": "10.0.0.2:1"},
        {"rule": "kip35/range-inverted"},
        {"client": "10.0.1.0/24"},
        {"client": "::/0"},
        {"client_software_name": "rp *"},
        {"rule": "kip35/*"},
    ],
    ids=str,
)
def test_a_suppression_that_matches_nothing_has_a_warning(what: dict[str, Any]) -> None:
    rules, use = suppressed_by(**what)
    assert rules == []
    assert "matches no finding" in use.warning


@pytest.mark.parametrize("pattern", ["fd00::/8", "fd00::7", "[fd00::7]:9092", "[fd00::7]"])
def test_an_ipv6_address_has_a_port_in_brackets(pattern: str) -> None:
    assert AddressPattern(pattern).covers("[fd00::7]:9092")
    assert not AddressPattern(pattern).covers("[fe80::7]:9092")
    assert not AddressPattern(pattern).covers("10.0.0.7:9092")


@pytest.mark.parametrize("network", ["10.0.0.7/8", "10.0.0.0/33", "clients/8"])
def test_what_is_not_a_network_is_refused(network: str) -> None:
    with pytest.raises(UserError, match="write an address or a network such as"):
        suppressed_by(client=network)


@pytest.mark.parametrize(("today", "expired"), [(UNTIL, False), (date(2026, 7, 1), True)])
def test_a_suppression_holds_until_and_including_its_day(today: date, expired: bool) -> None:
    rules, use = suppressed_by(today)
    assert bool(rules) is not expired
    assert use.expired is expired
    assert ("expired on 2026-06-30" in use.warning) is expired


def test_a_level_is_overridden() -> None:
    decisions = Decisions(Configuration(levels={RULE: Level.INFORMATION}))
    levels = {finding.rule: finding.level for finding in decided(decisions)}
    assert levels == {RULE: "information", "kip511/software-name-malformed": "violation"}


def test_a_finding_without_a_decision_is_unchanged() -> None:
    """`suppressed` is present only in suppressed findings."""
    assert decided(Decisions(Configuration())) == FINDINGS
    assert b"suppressed" not in msgspec.json.encode(FINDINGS)


def test_a_disabled_rule_is_left_out() -> None:
    decisions = Decisions(Configuration(disable=[RULE]))
    assert {rule.id for rule in RULES} - {rule.id for rule in decisions.rules} == {RULE}
    assert decisions.disabled == [RULE]


def test_rules_are_read_as_chosen() -> None:
    specs = {rule.family: str(rule.spec) for rule in Decisions(Configuration(spec=["kip1082=text"])).rules}
    assert specs["kip1082"] == "text"
    assert specs["kip511"] == "shipped"


def test_the_configured_listeners_are_terms_of_judging() -> None:
    """A name, the cluster and the node, each only if it is given."""
    listeners = [
        Listener("h:1", "WATCHED"),
        Listener("h:2", cluster_id="c", node_id=3),
        Listener("h:3", cluster_id="c"),
    ]
    terms = Decisions(Configuration(listener=listeners)).terms
    assert (terms.listener("h:1"), terms.listener("h:2")) == ("WATCHED", "h:2")
    assert terms.brokers == {"h:2": ClusterDescription("c", 3), "h:3": ClusterDescription("c", NO_NODE)}


@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(disable=["kip1313/nonsense"]),
        Configuration(levels={"kip1313/nonsense": Level.VIOLATION}),
        Configuration(suppress=[Suppression("kip1313/nonsense", "why", UNTIL)]),
        Configuration(suppress=[Suppression("kip1313/nonsense*", "why", UNTIL)]),
    ],
    ids=["disable", "levels", "suppress", "glob"],
)
def test_a_rule_that_does_not_exist_is_refused(configuration: Configuration) -> None:
    with pytest.raises(
        UserError, match=r"there is no rule 'kip1313/nonsense[*]?'; `kipwatch rules` lists them"
    ):
        Decisions(configuration)


def test_decisions_are_taken_over() -> None:
    changed = Configuration(
        bootstrap="kafka:9092",
        buckets=8,
        spec=["kip1082=text"],
        levels={RULE: Level.INFORMATION},
        suppress=[Suppression(RULE, "known", date(2027, 1, 1))],
        listener=[Listener("h:1", "WATCHED")],
    )
    assert take_over(CURRENT, changed) == (changed, [])


def test_other_settings_stay_and_are_named() -> None:
    changed = Configuration(bootstrap="elsewhere:9092", buckets=16, disable=[RULE])
    assert take_over(CURRENT, changed) == (CURRENT, ["bootstrap", "buckets"])
