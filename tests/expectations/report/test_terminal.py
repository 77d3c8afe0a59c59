"""Findings and coverage as a terminal shows them."""

from __future__ import annotations

import io
import itertools

import msgspec
import pytest
from rich.console import Console, RenderableType

from expectations.judging.finding import Finding, Suppressed
from expectations.report.client import software_text
from expectations.report.coverage import coverage_of
from expectations.report.terminal import coverage_table, finding_line, findings_list
from expectations.rules.catalogue import RULES
from tests.streaming.captures import violating

FINDINGS = sorted(violating().judge().findings, key=lambda finding: finding.sequence)


def shown(what: RenderableType, width: int = 100) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(what)
    return output.getvalue()


def named(software: str) -> Finding:
    return msgspec.structs.replace(FINDINGS[0], client_software_name=software)


def test_a_finding_in_one_line_says_level_rule_connection_and_why() -> None:
    line = finding_line(FINDINGS[1]).plain
    assert line.split()[:2] == ["violation", "kip1313/instance-id-changed"]
    assert "10.0.0.1:40000 (RP Console 1.0) → 10.0.0.2:9092" in line
    assert line.endswith(FINDINGS[1].message)
    assert "\n" not in line
    unknown = msgspec.structs.replace(
        FINDINGS[1], client_software_name=None, client_software_version=None, client_id="app"
    )
    assert "10.0.0.1:40000 (app) → 10.0.0.2:9092" in finding_line(unknown).plain


def test_a_finding_that_is_suppressed_says_so_and_why() -> None:
    borne = msgspec.structs.replace(FINDINGS[1], suppressed=Suppressed("fixed in 2.0", "2999-01-01"))
    assert finding_line(borne).plain.split()[:2] == ["suppressed", "kip1313/instance-id-changed"]
    printed = lines(findings_list([borne]))
    assert printed[1].split()[:2] == ["suppressed", "kip1313/instance-id-changed"]
    assert printed[-1].strip() == "suppressed until 2999-01-01: fixed in 2.0"


def lines(what: RenderableType) -> list[str]:
    return [line.rstrip() for line in shown(what).splitlines()]


def test_the_list_tells_of_each_finding_how_often_and_of_which_frame() -> None:
    text = shown(findings_list(FINDINGS))
    first, second = (text.index(finding.rule) for finding in FINDINGS)
    assert first < second
    assert "seen 1 time\n" in text and "seen 2 times in 0.0 s\n" in text
    for finding in FINDINGS:
        assert f"frame {finding.sequence}" in text
        assert f"expected {finding.expected}; observed {finding.observed}" in " ".join(text.split())
        assert f"{finding.kip}, {finding.section}" in text


def test_findings_stand_under_their_client_software_the_unknown_last() -> None:
    unknown = msgspec.structs.replace(FINDINGS[0], client_software_name=None, client_software_version=None)
    printed = lines(findings_list([unknown, *FINDINGS, named("a client")]))
    headings = [line for line in printed if line and not line.startswith(" ")]
    assert headings == ["RP Console 1.0", "a client 1.0", "unknown"]


def test_a_broken_client_with_many_connections_is_told_of_in_a_few_lines() -> None:
    many = [msgspec.structs.replace(FINDINGS[1], client=f"10.0.0.1:{port}") for port in range(2_000)]
    printed = lines(findings_list(many))
    assert len(printed) < 25
    assert printed[-1].strip() == "and 3,994 times on 1,997 more connections"


def test_a_rule_is_never_folded_however_narrow_the_terminal() -> None:
    """It is what a person copies into `kipwatch rules`."""
    text = shown(findings_list(FINDINGS, 60), width=60)
    assert all(finding.rule in text for finding in FINDINGS)


def test_markup_and_escapes_in_names_are_shown_not_obeyed() -> None:
    text = shown(findings_list([named("[bold]x[/red]\x1b[2J\nkipwatch:")]))
    assert r"[bold]x[/red]\x1b[2J\nkipwatch:" in text
    assert "\x1b" not in text


def test_the_coverage_table_has_a_row_a_rule_with_its_word() -> None:
    text = shown(coverage_table(coverage_of({("wire/malformed-request", "conforms"): 12})))
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "/" in line}
    assert rows.keys() == {rule.id for rule in RULES}
    assert rows["wire/malformed-request"] == ["12", "0", "0", "conforms"]
    assert rows["kip1313/instance-id-zero"] == ["0", "0", "0", "not", "exercised"]


@pytest.mark.parametrize("width", [60, 100])
def test_below_a_rule_stands_why_it_was_undecided(width: int) -> None:
    rule, one = "wire/malformed-request", "wire/trailing-bytes"
    coverage = coverage_of({(rule, "cut"): 12, (rule, "not-asked"): 30, (one, "cut"): 2})
    text = shown(coverage_table(coverage, width=width), width=width).splitlines()
    below = {line.split()[0]: after for line, after in itertools.pairwise(text)}
    assert below[rule].strip() == "undecided: not-asked 30, cut 12"
    assert below[one].strip() == "undecided: cut"


def test_a_rule_of_a_lower_level_is_not_violated_and_a_level_of_the_users_counts() -> None:
    improvement, information = "kip1313/instance-id-reserved", "kip1313/instance-id-not-lifelong"
    coverage = coverage_of({(improvement, "violates"): 1, (information, "violates"): 1})
    states = {line.split()[0]: line.split()[-1] for line in lines(coverage_table(coverage))[1:]}
    assert (states[improvement], states[information]) == ("improvement", "information")
    raised = msgspec.structs.replace(FINDINGS[0], rule=improvement, level="violation")
    states = {line.split()[0]: line.split()[-1] for line in lines(coverage_table(coverage, [raised]))[1:]}
    assert states[improvement] == "violated"


def test_the_coverage_fits_a_narrow_terminal() -> None:
    coverage = coverage_of(
        {("wire/malformed-request", "conforms"): 12, ("wire/malformed-request", "violates"): 3}
    )
    text = shown(coverage_table(coverage, width=60), width=60)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "/" in line}
    assert rows["wire/malformed-request"] == ["3", "violated"]
    assert rows.keys() == {rule.id for rule in RULES}


def test_what_was_neither_expected_nor_observed_is_not_mentioned() -> None:
    bare = msgspec.structs.replace(FINDINGS[0], observed="")
    text = " ".join(shown(findings_list([bare])).split())
    assert f"expected {bare.expected} " in text
    assert "observed" not in text
    assert "expected" not in shown(findings_list([msgspec.structs.replace(bare, expected="")]))


def test_a_client_without_a_name_and_one_with_an_empty_name_are_told_apart() -> None:
    assert software_text((None, None)) == "unknown"
    assert software_text(("", "")) == '"" ""'
    assert software_text(("RP Console", "")) == 'RP Console ""'
