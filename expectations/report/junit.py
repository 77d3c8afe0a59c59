"""Reports as JUnit for build servers: of a check by rule, of duties one by one, of an upgrade by client.

A rule that was broken fails. A rule that had nothing to judge, or could not decide, is skipped; one that
decided only some checks passes, and `system-out` says how many. A client that breaks fails. Reports conform
to both common schemas of JUnit (Ant's and Jenkins'): at most one failure per test case, and every attribute
that either schema requires.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence

from expectations.conversation.texts import printable
from expectations.judging.finding import Finding
from expectations.report.coverage import Coverage, state_in_words
from expectations.report.duties import DutyReport
from expectations.report.terminal import remarks_on
from expectations.report.upgrade import UpgradedClient, UpgradeReport

_DECIDED = ("conforms", "violated")


def junit_report(
    failures: Sequence[Finding], others: Sequence[Finding], coverage: Sequence[Coverage], timestamp: str
) -> bytes:
    """Return the report as XML in UTF-8. `failures` fail their rule.

    `others` go to `system-out`, and so does how much is undecided of rules that conform. `timestamp` is when
    the check was made, in ISO 8601 without a time zone.
    """
    cases = [_case(row, [found for found in failures if found.rule == row.rule]) for row in coverage]
    lines = [_line(finding) for finding in others]
    lines += [_undecided(row) for row in coverage if row.conforms and row.undecided]
    return _document(cases, lines, timestamp)


def _undecided(row: Coverage) -> str:
    checks = row.conforms + row.violates + row.undecided
    reasons = ", ".join(f"{count} {reason}" for reason, count in row.reasons.items())
    return f"{row.rule}: {row.undecided} of {checks} checks undecided ({reasons})"


def junit_upgrade(report: UpgradeReport, timestamp: str) -> bytes:
    """Return the report of an upgrade as XML in UTF-8, made at `timestamp`."""
    return _document([_client_case(client, report.upgrade_to) for client in report.clients], [], timestamp)


def junit_duties(
    duties: Sequence[DutyReport], failing: Mapping[str, Sequence[Finding]], timestamp: str
) -> bytes:
    """Return the report on duties as XML in UTF-8. `failing` has the findings that fail each duty."""
    others = [found for duty in duties for found in duty.findings if found not in failing[duty.duty]]
    cases = [_duty_case(duty, failing[duty.duty]) for duty in duties]
    return _document(cases, [_line(finding) for finding in others], timestamp)


def junit_suite(
    name: str, cases: Sequence[ET.Element], timestamp: str, *, number: int = 0, lines: Sequence[str] = ()
) -> ET.Element:
    """Return a test suite of test cases. `number` counts the suites of a document, `lines` are its output."""
    suite = ET.Element(
        "testsuite",
        name=name,
        package="kipwatch",
        id=str(number),
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
    ET.SubElement(suite, "system-out").text = "\n".join(lines)
    ET.SubElement(suite, "system-err")
    return suite


def junit_document(suites: Iterable[ET.Element]) -> bytes:
    """Return test suites as XML in UTF-8."""
    document = ET.Element("testsuites")
    document.extend(suites)
    ET.indent(document)
    written: bytes = ET.tostring(document, encoding="utf-8", xml_declaration=True)
    return written


def _document(cases: Sequence[ET.Element], lines: Sequence[str], timestamp: str) -> bytes:
    return junit_document([junit_suite("kipwatch", cases, timestamp, lines=lines)])


def _case(row: Coverage, failures: Sequence[Finding]) -> ET.Element:
    case = ET.Element("testcase", classname=f"kipwatch.{row.family}", name=row.rule, time="0")
    if failures:
        _fail(case, failures)
    elif state_in_words(row) not in _DECIDED:
        ET.SubElement(case, "skipped", message=state_in_words(row))
    return case


def _fail(case: ET.Element, failures: Sequence[Finding]) -> None:
    failure = ET.SubElement(case, "failure", type=failures[0].level, message=failures[0].message)
    failure.text = "\n".join(_line(finding) for finding in failures)


def _duty_case(duty: DutyReport, failures: Sequence[Finding]) -> ET.Element:
    case = ET.Element("testcase", classname="kipwatch.duty", name=duty.duty, time="0")
    if failures:
        _fail(case, failures)
    elif duty.why:
        ET.SubElement(case, "skipped", message=f"{duty.state}: {printable(duty.why)}")
    return case


def _client_case(client: UpgradedClient, release: str) -> ET.Element:
    case = ET.Element("testcase", classname="kipwatch.upgrade", name=printable(client.name), time="0")
    if client.breaks:
        message = f"breaks with Kafka {release}"
        failure = ET.SubElement(case, "failure", type="removed", message=message)
        failure.text = "\n".join(map(printable, remarks_on(client)))
    return case


def _line(finding: Finding) -> str:
    seen = f"{finding.client} -> {finding.broker}, frame {finding.sequence}, seen {finding.occurrences}x"
    expected = f"expected {finding.expected}; observed {finding.observed}"
    return printable(f"{finding.level} {finding.rule}: {finding.message} ({seen}; {expected})")
