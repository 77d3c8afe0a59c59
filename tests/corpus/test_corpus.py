"""Each capture of the corpus yields the findings of the case that it was made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from expectations.cases.notation import finding_in_words
from expectations.judging.terms import Terms
from streaming.check.examination import examine
from tests.cases.test_cases import CASES
from tests.corpus.corpus import PAGES, entries, write
from tests.corpus.packets import NotCapturableError, packets_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_captures_yield_the_findings_of_their_cases(page: Path, tmp_path: Path) -> None:
    for entry in entries(page):
        examination = examine(
            write(entry, tmp_path), default_schemas(), entry.ports, Terms(entry.case.exchange()[1])
        )
        assert sorted(map(finding_in_words, examination.findings)) == entry.case.findings, entry.name


def test_names_differ_and_most_cases_of_every_rule_can_be_captured() -> None:
    found = [entry for page in PAGES for entry in entries(page)]
    assert len({entry.name for entry in found}) == len(found) > 0.8 * len(CASES)
    assert {entry.case.rule for entry in found} == {case.rule for case in CASES}


def test_what_a_capture_shows_stands_beside_it(tmp_path: Path) -> None:
    entry = next(entries(PAGES[0]))
    about = json.loads(write(entry, tmp_path).with_suffix(".json").read_text())
    assert (about["rule"], about["exchange"]) == (entry.case.rule, entry.case.script)


def test_what_no_packet_shows_is_refused() -> None:
    refused = {}
    for case in CASES:
        try:
            list(packets_of(case.exchange()[0].records))
        except NotCapturableError as error:
            refused[case.title] = str(error)
    assert len(set(refused.values())) > 5
