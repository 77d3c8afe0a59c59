"""Every exchange of the cases is judged as its page says, and every rule has a page of cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from expectations.cases.notation import finding_in_words, verdicts_in_words
from expectations.judging.outcome import Outcome
from expectations.report.coverage import coverage_of
from expectations.rules.base.reason import Reason
from expectations.rules.base.rule import Verdict
from expectations.rules.catalogue import RULES
from tests.cases.notation import Case, read_page

FOLDER = Path(__file__).parent
PAGES = sorted(path for path in FOLDER.glob("*/*.md"))
CASES = [case for page in PAGES for case in read_page(page)]


def verdicts_of(outcome: Outcome, rule: str) -> str:
    """Return the verdicts of a rule as the pages write them."""
    (row,) = coverage_of(outcome.checks, [each for each in RULES if each.id == rule])
    return verdicts_in_words(row)


def findings_of(outcome: Outcome) -> list[str]:
    """Return one line per finding, as the pages write them."""
    return sorted(map(finding_in_words, outcome.findings))


@pytest.mark.parametrize("size", [10_000, 1], ids=["whole", "frame by frame"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.title}")
def test_a_case_is_judged_as_its_page_says(case: Case, size: int) -> None:
    outcome = case.judge(size)
    assert verdicts_of(outcome, case.rule) == case.verdicts
    assert findings_of(outcome) == case.findings


def repeated(script: Sequence[str]) -> Iterator[str]:
    """Put each request three times more before itself, each with a response: its own, if that comes next.

    Only what has a response is folded.
    """
    for line, after in zip(script, [*script[1:], ""], strict=True):
        if line.startswith("client >"):
            answer = f"broker < {line.split()[2]}"
            is_answered = after.startswith(answer)
            yield from [line, after if is_answered else f"{answer} bytes=000000000000"] * 3
        yield line


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_what_is_repeated_is_counted_alike_folded_and_frame_by_frame(rule: str) -> None:
    for case in (case for case in CASES if case.rule == rule):
        often = dataclasses.replace(case, script=[*repeated(case.script)])
        folded, single = often.judge(10_000), often.judge(1)
        assert folded.checks == single.checks, case.title
        assert findings_of(folded) == findings_of(single), case.title


def family_folder(rule: str) -> str:
    """Return the folder of a rule's KIP: `kip_511` of `kip511/connection-kept`."""
    return rule.partition("/")[0].replace("kip", "kip_")


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
def test_a_rule_has_a_case_that_violates_one_that_conforms_and_one_that_is_undecided(rule: str) -> None:
    expected = {word for case in CASES if case.rule == rule for word in case.verdicts.split()}
    page = f"tests/cases/{family_folder(rule)}/{rule.partition('/')[2].replace('-', '_')}.md"
    missing = {str(verdict) for verdict in Verdict} - expected
    assert not missing, f"write cases to {page}: {missing}; then run `make rule RULE={rule}`"


def test_every_page_of_cases_is_of_a_rule() -> None:
    assert {case.rule for case in CASES} <= {rule.id for rule in RULES}


def test_every_reason_leaves_a_case_undecided() -> None:
    """Except one that takes more requests than a page can show."""
    shown = {word.strip("(,)") for case in CASES for word in case.verdicts.split()}
    assert set(Reason) - shown == {Reason.FORGOTTEN}
