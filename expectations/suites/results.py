"""The results of suites for others to read: JUnit for build servers, and one HTML page that loads nothing.

In JUnit a table is a test suite and an expectation a test case.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from html import escape

from expectations.suites.suite import ExpectationOutcome, SuiteResult

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid #8886; padding: .4rem .8rem .4rem 0; text-align: left; }
td, th { vertical-align: top; }
.holds { color: #1a7f37; } .critical { color: #c62828; font-weight: 600; } .warning { color: #9a6700; }
code { white-space: nowrap; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; }
  .holds { color: #57ab5a; } .critical { color: #ff7b72; } .warning { color: #d9a514; } }
"""


def junit_suites(results: Sequence[SuiteResult], timestamp: str) -> bytes:
    """Return the report as XML in UTF-8, made at `timestamp`, in ISO 8601 without a time zone."""
    suites = ET.Element("testsuites")
    for number, result in enumerate(results):
        suites.append(_test_suite(result, number, timestamp))
    ET.indent(suites)
    written: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written


def _test_suite(result: SuiteResult, number: int, timestamp: str) -> ET.Element:
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
    suite.extend(_test_case(result, outcome) for outcome in result.outcomes)
    ET.SubElement(suite, "system-out")
    ET.SubElement(suite, "system-err")
    return suite


def _test_case(result: SuiteResult, outcome: ExpectationOutcome) -> ET.Element:
    case = ET.Element("testcase", name=outcome.id, classname=f"kipwatch.{result.table}", time="0")
    if not outcome.success:
        message = f"{outcome.unexpected_count} of {result.rows} rows do not hold"
        failure = ET.SubElement(case, "failure", type=outcome.severity, message=message)
        failure.text = f"{outcome.meaning} {outcome.action}"
    return case


def audit_page(results: Sequence[SuiteResult], source: str, timestamp: str) -> str:
    """Return the page. `source` says what was audited, `timestamp` when."""
    failed = sum(not outcome.success for result in results for outcome in result.outcomes)
    total = sum(len(result.outcomes) for result in results)
    verdict = "all expectations hold" if not failed else f"{failed} of {total} expectations do not hold"
    sections = "\n".join(map(_section, results))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>kipwatch: audit</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>Audit</h1>\n<p>{escape(source)}, {escape(timestamp)} UTC: <b>{verdict}</b></p>\n"
        f"{sections}\n</body>\n</html>\n"
    )


def _section(result: SuiteResult) -> str:
    ordered = sorted(result.outcomes, key=lambda outcome: (outcome.success, outcome.severity, outcome.id))
    rows = "\n".join(_row(result, outcome) for outcome in ordered)
    return (
        f'<section id="{escape(result.table)}">\n<h2>{escape(result.table)}, {result.rows} rows</h2>\n'
        "<table>\n<tr><th>expectation</th><th>result</th><th>what is expected</th><th>what to do</th></tr>\n"
        f"{rows}\n</table>\n</section>"
    )


def _row(result: SuiteResult, outcome: ExpectationOutcome) -> str:
    state = "holds" if outcome.success else outcome.severity
    text = (
        "holds"
        if outcome.success
        else f"{outcome.severity}: {outcome.unexpected_count} of {result.rows} rows"
    )
    action = "" if outcome.success else escape(outcome.action)
    return (
        f'<tr><td><code>{escape(outcome.id)}</code></td><td class="{state}">{text}</td>'
        f"<td>{escape(outcome.meaning)}</td><td>{action}</td></tr>"
    )
