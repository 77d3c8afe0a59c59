"""The JUnit report has the form that the common schemas demand, and its failures are those it was given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from expectations.report.coverage import coverage_of
from expectations.report.junit import junit_report
from expectations.rules.base.reason import Reason
from expectations.rules.catalogue import RULES
from tests.streaming.captures import violating

OUTCOME = violating().judge()
TIMESTAMP = "2026-01-02T03:04:05"


def report(name: str = "RP Console") -> ET.Element:
    """The suite of a check of four frames with two rules offended, one of which is said to fail."""
    found = violating(name).judge().findings
    failing = [finding for finding in found if finding.rule.startswith("kip511/")]
    others = [finding for finding in found if finding not in failing]
    suites = ET.fromstring(junit_report(failing, others, coverage_of(OUTCOME.checks), TIMESTAMP))
    assert suites.tag == "testsuites"
    (suite,) = suites
    return suite


def test_every_rule_is_a_test_case() -> None:
    cases = report().findall("testcase")
    assert [case.get("name") for case in cases] == [rule.id for rule in RULES]
    assert {case.get("time") for case in cases} == {"0"}
    assert all(re.fullmatch(r"kipwatch\.\w+", case.get("classname", "")) for case in cases)


def test_a_case_has_one_outcome_at_most_and_the_suite_counts_them() -> None:
    suite = report()
    outcomes = [[child.tag for child in case] for case in suite.findall("testcase")]
    assert {tuple(outcome) for outcome in outcomes} == {(), ("failure",), ("skipped",)}
    for attribute, tag in (("failures", "failure"), ("skipped", "skipped"), ("errors", "error")):
        assert suite.get(attribute) == str(outcomes.count([tag]))
    assert suite.get("tests") == str(len(RULES))


def test_the_parts_of_a_suite_stand_in_the_order_that_a_schema_demands() -> None:
    suite = report()
    tags = [child.tag for child in suite]
    assert tags == ["properties", *["testcase"] * len(RULES), "system-out", "system-err"]
    demanded = {"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"}
    assert demanded <= set(suite.keys())


def test_what_fails_and_what_does_not_are_told_in_full() -> None:
    suite = report()
    failure = suite.find("testcase[@name='kip511/software-name-malformed']/failure")
    assert failure is not None and failure.get("type") == "violation"
    assert "10.0.0.1:40000 -> 10.0.0.2:9092, frame 2, seen 1x" in (failure.text or "")
    assert suite.find("testcase[@name='kip1313/instance-id-changed']/failure") is None
    assert "kip1313/instance-id-changed" in (suite.findtext("system-out") or "")


def test_what_is_undecided_of_a_rule_that_conforms_is_told() -> None:
    rule = RULES[0].id
    rulings = {"conforms": 3, str(Reason.NOT_ASKED): 2, str(Reason.CUT): 1}
    checks = {(rule, ruling): count for ruling, count in rulings.items()}
    (suite,) = ET.fromstring(junit_report([], [], coverage_of(checks), TIMESTAMP))
    assert suite.findtext("system-out") == f"{rule}: 3 of 6 checks undecided (2 not-asked, 1 cut)"
    case = suite.find(f"testcase[@name='{rule}']")
    assert case is not None and not list(case)


@given(st.text(max_size=20).filter(lambda name: not re.fullmatch(r"[\w.\-]*", name)))
def test_whatever_the_wire_says_the_report_is_xml(name: str) -> None:
    assert report(name).get("name") == "kipwatch"
