"""A check as a JUnit report for build servers, with one test case per rule.

A rule that was broken fails. A rule that had nothing to judge, or could not decide, is skipped. The
report conforms to both common schemas of JUnit reports (Ant's and Jenkins'): at most one failure per
test case, and every attribute that either schema requires.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from expectations.judging.finding import Finding, printable
from expectations.report.coverage import Coverage, state_in_words

_DECIDED = ("conforms", "violated")


def junit_report(
    failures: Sequence[Finding], others: Sequence[Finding], coverage: Sequence[Coverage], timestamp: str
) -> bytes:
    """Return the report as XML in UTF-8. `failures` fail their rule, `others` go to `system-out`.

    `timestamp` is when the check was made, in ISO 8601 without a time zone.
    """
    cases = [_case(row, [found for found in failures if found.rule == row.rule]) for row in coverage]
    suite = ET.Element(
        "testsuite",
        name="kipwatch",
        package="kipwatch",
        id="0",
        timestamp=timestamp,
        hostname="localhost",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time="0",
    )
    ET.SubElement(suite, "properties")
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = "\n".join(_line(finding) for finding in others)
    ET.SubElement(suite, "system-err")
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    written: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written


def _case(row: Coverage, failures: Sequence[Finding]) -> ET.Element:
    family = row.rule.partition("/")[0]
    case = ET.Element("testcase", classname=f"kipwatch.{family}", name=row.rule, time="0")
    if failures:
        failure = ET.SubElement(case, "failure", type=failures[0].level, message=failures[0].message)
        failure.text = "\n".join(_line(finding) for finding in failures)
    elif state_in_words(row) not in _DECIDED:
        ET.SubElement(case, "skipped", message=state_in_words(row))
    return case


def _line(finding: Finding) -> str:
    seen = f"{finding.client} -> {finding.broker}, frame {finding.sequence}, seen {finding.occurrences}x"
    expected = f"expected {finding.expected}; observed {finding.observed}"
    return printable(f"{finding.level} {finding.rule}: {finding.message} ({seen}; {expected})")
