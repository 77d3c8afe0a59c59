"""The judge: one finding a rule and connection, published when there is news, and told in full.

Rules are asked only about what they declare, and would ignore the rest.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.schema.header_versions import Layout
from decoders.schema.registry import default_schemas
from expectations.conversation.negotiation import WAITING_LIMIT
from expectations.judging.finding import Finding
from expectations.judging.judge import ConnectionState, Judge, open_connection
from expectations.judging.outcome import Outcome
from expectations.judging.terms import Terms
from expectations.rules.base.rule import Judgement, Rule, Verdict
from expectations.rules.catalogue import RULES
from tests.cases.test_cases import CASES
from tests.examples import examples
from tests.exchange import ID_A, ID_B, SOFTWARE, Exchange, added_up, advertisement
from tests.expectations.conversation.steps import STEPS

NAMES = default_schemas().api_names
CHANGED = "kip1313/instance-id-changed"
MISSING_FIRST = "kip1313/client-id-missing-first"


def judged(
    exchange: Exchange, judge: Judge | None = None, size: int = 1
) -> tuple[ConnectionState, list[Outcome]]:
    """Judge an exchange window by window."""
    judge = judge or Judge(NAMES)
    windows = exchange.windows(size)
    state = open_connection(windows[0].connection)
    return state, [judge.judge(state, window) for window in windows]


def published(outcomes: list[Outcome]) -> list[Finding]:
    return [finding for outcome in outcomes for finding in outcome.findings]


def storm(offences: int) -> Exchange:
    """One good request, and then as many with another instance ID."""
    exchange = Exchange()
    exchange.request("Metadata", 14, client_id="app", instance_id=ID_A)
    for _ in range(offences):
        exchange.request("Metadata", 14, instance_id=ID_B)
    return exchange


def test_a_storm_is_published_once_and_once_more_when_the_connection_closes() -> None:
    exchange = storm(500)
    exchange.close()
    _, outcomes = judged(exchange)
    first, last = published(outcomes)
    assert (first.rule, first.id) == (CHANGED, last.id)
    assert (first.occurrences, last.occurrences) == (1, 500)
    assert first.first_captured_at == last.first_captured_at == exchange.records[2].captured_at
    assert last.last_captured_at == exchange.records[-2].captured_at


def test_counts_do_not_wait_for_publication() -> None:
    """Metrics see every offence at once."""
    _, outcomes = judged(storm(500), size=100)
    assert sum(sum(outcome.offences.values()) for outcome in outcomes) == 500
    assert sum(outcome.checks.get((CHANGED, "violates"), 0) for outcome in outcomes) == 500
    assert len(published(outcomes)) == 1


def test_asked_anew_only_what_grew_is_given() -> None:
    judge, exchange = Judge(NAMES), storm(3)
    state, _ = judged(exchange, judge)
    assert [finding.occurrences for finding in judge.republish(state)] == [3]
    assert judge.republish(state) == []


def test_what_was_published_does_not_change_afterwards() -> None:
    """A finding in the hands of a sink stays as it was given."""
    judge, exchange = Judge(NAMES), storm(1)
    state, outcomes = judged(exchange, judge)
    (given,) = published(outcomes)
    exchange.request("Metadata", 14, instance_id=ID_B)
    judge.judge(state, exchange.windows(3)[-1])
    assert given.occurrences == 1
    assert state.findings[CHANGED].finding.occurrences == 2


def test_a_risen_level_is_news_under_the_same_id() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 6, SOFTWARE, client_id=None, instance_id=ID_A)
    exchange.request("Metadata", 14, instance_id=ID_A, client_id="app")
    _, outcomes = judged(exchange)
    levels = [(found.level, found.id) for found in published(outcomes) if found.rule == MISSING_FIRST]
    assert [level for level, _ in levels] == ["improvement", "violation"]
    assert len({identity for _, identity in levels}) == 1
    offences = [
        offence for outcome in outcomes for offence in outcome.offences if offence.rule == MISSING_FIRST
    ]
    assert [offence.level for offence in offences] == ["improvement", "violation"]


def test_what_was_heard_before_is_passed_over() -> None:
    judge, exchange = Judge(NAMES), storm(5)
    state, _ = judged(exchange, judge)
    before = msgspec.msgpack.encode(state)
    (whole,) = exchange.windows()
    again = judge.judge(state, whole)
    assert (again.checks, again.offences, again.findings) == ({}, {}, [])
    assert msgspec.msgpack.encode(state) == before


def test_a_finding_tells_who_where_and_when() -> None:
    exchange = Exchange()
    exchange.request("ApiVersions", 6, SOFTWARE, client_id="app", instance_id=ID_A)
    exchange.respond(exchange.records[-1], advertisement())
    request = exchange.beat("", 0, 2, client_id=None, instance_id=ID_A)
    _, outcomes = judged(exchange, Judge(NAMES, Terms(listeners={"10.0.0.2:9092": "WATCHED"})))
    (finding,) = published(outcomes)
    assert (finding.rule, finding.level, finding.role, finding.spec) == (
        "kip1082/member-id-empty",
        "violation",
        "client",
        "shipped",
    )
    assert (finding.client, finding.broker, finding.listener) == (
        "10.0.0.1:40000",
        "10.0.0.2:9092",
        "WATCHED",
    )
    assert (finding.client_id, finding.client_software_name, finding.client_software_version) == (
        "app",
        "tester",
        "1.0",
    )
    assert (finding.client_instance_id, finding.member_id, finding.group_id) == (
        "AAECAwQFBgcICQoLDA0ODw",
        "",
        "g",
    )
    assert (finding.api, finding.api_key, finding.api_version) == ("ConsumerGroupHeartbeat", 68, 2)
    assert (finding.correlation_id, finding.sequence) == (2, request.sequence)
    assert finding.captured_at == finding.first_captured_at == request.captured_at
    assert (finding.evidence.position, finding.evidence.bytes) == (request.position, request.frame.hex())
    assert finding.connection == request.connection.hex()
    assert finding.runbook == "docs/runbook.md#kip1082member-id-empty"


def test_what_is_not_known_is_null() -> None:
    _, outcomes = judged(storm(1))
    (finding,) = published(outcomes)
    assert (finding.client_software_name, finding.member_id, finding.group_id) == (None, None, None)
    assert finding.listener == finding.broker == "10.0.0.2:9092"


def test_a_finding_is_one_json_object_with_named_evidence() -> None:
    """The contract of the topic: whoever reads it knows no order of fields."""
    exchange = storm(1)
    _, outcomes = judged(exchange)
    document = msgspec.json.decode(msgspec.json.encode(published(outcomes)[0]))
    begins = exchange.records[-1].frame.hex()
    assert document["evidence"] == {"source": "exchange", "position": 3000, "bytes": begins}
    assert document["context"]["anchor"] == "first-request"
    assert msgspec.convert(document, Finding) == published(outcomes)[0]


@pytest.mark.parametrize("name", ["two\nlines", "\x1b[2J", "{api} {nothing} %s", "\u202eback"])
def test_a_message_is_one_line_that_can_be_shown_whatever_is_on_the_wire(name: str) -> None:
    """What was on the wire as it was stands in the context."""
    exchange = Exchange()
    body = SOFTWARE | {"clientSoftwareName": name}
    exchange.respond(exchange.request("ApiVersions", 4, body, client_id="app"), advertisement(42))
    _, outcomes = judged(exchange)
    (finding,) = published(outcomes)
    assert finding.message.isprintable()
    assert finding.context["text"] == finding.observed == name


def test_an_api_without_a_name_is_told_by_its_key() -> None:
    exchange = Exchange()
    exchange.request("Metadata", 12, frame=bytes.fromhex("0003000c00000009ffff00ff"))
    _, outcomes = judged(exchange, Judge({}))
    (finding,) = published(outcomes)
    assert finding.message.startswith("API 3 v12 cannot be decoded")
    assert finding.api is None


def test_only_the_rules_given_judge() -> None:
    chosen = [rule for rule in RULES if rule.id == CHANGED]
    _, outcomes = judged(storm(1), Judge(NAMES, Terms(chosen)))
    assert {rule for outcome in outcomes for rule, _ in outcome.checks} == {CHANGED}


def test_a_context_that_takes_a_name_of_the_frame_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    (rule,) = (rule for rule in RULES if rule.id == CHANGED)
    offends = Judgement(Verdict.VIOLATES, context={"api": "Fetch", "first": "a"})
    monkeypatch.setattr(type(rule), "on_request", lambda *_: iter([offends]))
    with pytest.raises(ValueError, match=f"{CHANGED}: api in a context"):
        judged(storm(1), Judge(NAMES, Terms([rule])))


@pytest.mark.parametrize("layout", list(Layout))
def test_a_finding_of_kip_1313_tells_in_which_layout_header_3_was_seen(layout: Layout) -> None:
    exchange = Exchange()
    for instance_id in (ID_A, ID_B):
        exchange.request("Metadata", 14, client_id="app", instance_id=instance_id, layout=layout)
    _, outcomes = judged(exchange)
    assert {finding.header_layout for finding in published(outcomes)} == {layout}
    assert all(f"header 3 in its {layout} layout" in found.demanded_by for found in published(outcomes))


def test_a_finding_of_another_kip_tells_nothing_of_header_3() -> None:
    exchange = storm(0)
    body = SOFTWARE | {"clientSoftwareName": "RP Console"}
    exchange.respond(exchange.request("ApiVersions", 4, body, client_id="app"), advertisement(42))
    _, outcomes = judged(exchange)
    malformed = [found for found in published(outcomes) if found.kip == "KIP-511"]
    assert malformed
    assert all(found.header_layout is msgspec.UNSET for found in malformed)
    assert all(found.demanded_by == f"KIP-511, {found.section}" for found in malformed)


def test_repeated_offences_are_counted_without_building_a_finding_of_each() -> None:
    """With decisions of users each is built, so that they may depend on who offends: the result is equal."""
    for case in CASES:
        exchange, rules = case.exchange()
        plain, deciding = (
            exchange.judge(3, judge=Judge(NAMES, Terms(rules, decide=decide)))
            for decide in (None, lambda finding: finding)
        )
        assert plain == deciding, case.title


def judged_in_sum(judge: Judge, exchange: Exchange) -> tuple[Any, ...]:
    """Judge an exchange, and return its checks, its findings and the state."""
    windows = exchange.windows()
    state = open_connection(windows[0].connection)
    outcome: Outcome = added_up([judge.judge(state, window) for window in windows])
    return outcome.checks, {finding.id: finding for finding in outcome.findings}, state


def undeclared(rule: Rule) -> Rule:
    """Return a rule without the declarations that save calls."""
    bare = copy.copy(rule)
    vars(bare).update(apis=None, needs_header_v3=False, passes_clean=False)
    return bare


ASKING_EVERY_RULE = Judge(NAMES, Terms([undeclared(rule) for rule in RULES]))
"""Asks every rule about everything that it has methods for."""


@examples(200)
@given(st.lists(st.sampled_from(list(STEPS)), max_size=30), st.booleans(), st.booleans())
def test_asking_every_rule_about_everything_changes_nothing(
    steps: list[str], mid_stream: bool, closed: bool
) -> None:
    exchange = Exchange(mid_stream=mid_stream)
    for name in steps:
        STEPS[name](exchange)
    if closed:
        exchange.close()
    assert judged_in_sum(Judge(NAMES), exchange) == judged_in_sum(ASKING_EVERY_RULE, exchange)


@pytest.mark.parametrize("requests", [1, WAITING_LIMIT, WAITING_LIMIT + 5])
def test_claims_that_a_request_makes_the_negotiation_give_up_are_judged(requests: int) -> None:
    """A request without a response is given up for the one behind it once too many wait."""
    exchange = Exchange()
    for _ in range(requests):
        exchange.request("ApiVersions", 4, {"clientSoftwareName": "-a", "clientSoftwareVersion": "1"})
    checks, *_ = found = judged_in_sum(Judge(NAMES), exchange)
    assert found == judged_in_sum(ASKING_EVERY_RULE, exchange)
    given_up = max(0, requests - WAITING_LIMIT)
    assert checks.get(("kip511/software-name-malformed", "forgotten"), 0) == given_up


def test_a_claim_that_cannot_be_read_is_judged_at_once() -> None:
    whole = Exchange().request("ApiVersions", 4, {"clientSoftwareName": "a", "clientSoftwareVersion": "1"})
    exchange = Exchange()
    exchange.request("ApiVersions", 4, frame=whole.frame[:-3])
    checks, *_ = found = judged_in_sum(Judge(NAMES), exchange)
    assert found == judged_in_sum(ASKING_EVERY_RULE, exchange)
    assert checks["kip511/software-name-malformed", "unreadable"] == 1
