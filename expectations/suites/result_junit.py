"""The results of suites as JUnit for build servers: a test suite a table, a test case an expectation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from expectations.suites.validation import ExpectationOutcome, SuiteResult


def junit_suites(results: Sequence[SuiteResult], timestamp: str) -> bytes:
    """Return the report as XML in UTF-8, made at `timestamp`, in ISO 8601 without a time zone."""
    suites = ET.Element("testsuites")
    for number, result in enumerate(results):
        suites.append(_suite(result, number, timestamp))
    ET.indent(suites)
    written: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written


def _suite(result: SuiteResult, number: int, timestamp: str) -> ET.Element:
    failures = sum(not outcome.success for outcome in result.outcomes)
    suite = ET.Element(
        "testsuite",
        name=result.table,
        package="kipwatch",
        id=str(number),
        timestamp=timestamp,
        hostname="localhost",
        tests=str(len(result.outcomes)),
        failures=str(failures),
        errors="0",
        skipped="0",
        time="0",
    )
    ET.SubElement(suite, "properties")
    suite.extend(_case(result, outcome) for outcome in result.outcomes)
    ET.SubElement(suite, "system-out")
    ET.SubElement(suite, "system-err")
    return suite


def _case(result: SuiteResult, outcome: ExpectationOutcome) -> ET.Element:
    case = ET.Element("testcase", name=outcome.id, classname=f"kipwatch.{result.table}", time="0")
    if not outcome.success:
        message = f"{outcome.unexpected_count} of {result.rows} rows do not hold"
        failure = ET.SubElement(case, "failure", type=outcome.severity, message=message)
        failure.text = f"{outcome.meaning} {outcome.action}"
    return case
