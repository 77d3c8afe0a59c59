"""`kipwatch audit --archive`: text, JSON, JUnit, page and exit status."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.commands.main import main
from tests.captures import planted
from tests.streaming.commands.ran import Kipwatch


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    assert main(["report", "--archive", str(folder), str(planted.CAPTURE)]) == 0
    return folder


@pytest.fixture
def damaged(archive: Path) -> Iterator[Path]:
    """The archive with a file that no batch wrote, until the test is over."""
    (original,) = (archive / "findings").rglob("*.parquet")
    copy = original.with_name("copy.parquet")
    copy.write_bytes(original.read_bytes())
    yield archive
    copy.unlink()


@pytest.mark.slow
def test_the_archive_of_planted_offences_is_whole(kipwatch: Kipwatch, archive: Path, tmp_path: Path) -> None:
    """Offences of clients are no damage to the data."""
    ran = kipwatch("audit", "--archive", archive, "--junit", tmp_path / "audit.xml")
    assert ran.status == 0, ran.output
    for table in ("usage", "errors", "findings", "coverage", "connections", "groups", "brokers"):
        assert re.search(rf"^{table}, [1-9]\d* rows$", ran.output, flags=re.MULTILINE)
    suites = ET.fromstring((tmp_path / "audit.xml").read_bytes())
    assert len(suites) == 7
    assert {suite.get("failures") for suite in suites} == {"0"}


@pytest.mark.slow
def test_damage_is_named_in_every_form(kipwatch: Kipwatch, damaged: Path, tmp_path: Path) -> None:
    junit, page = tmp_path / "audit.xml", tmp_path / "audit.html"
    ran = kipwatch("audit", "--archive", damaged, "--json", "--junit", junit, "--html", page)
    assert ran.status == 1
    # Tests before this one may have turned the log on, which libraries write to, too.
    results = {each["table"]: each for each in json.loads(ran.output.splitlines()[-1])["results"]}
    failed = [each["id"] for each in results["findings"]["outcomes"] if not each["success"]]
    assert failed == ["file-of-a-batch", "finding-was-counted"]
    cases = ET.fromstring(junit.read_bytes()).iterfind(".//testcase[failure]")
    assert [case.get("name") for case in cases] == failed
    text = page.read_text()
    assert "Find out who wrote the file." in text
    assert "`" not in text and "<code>unknown</code>" in text
    # A column for what to do would be empty where nothing is.
    assert "<td></td>" not in text
    assert "src=" not in text and "http" not in text.replace("<!doctype html>", "")


@pytest.mark.slow
def test_damage_of_other_days_is_not_told(kipwatch: Kipwatch, damaged: Path, tmp_path: Path) -> None:
    """Nor is it damage that days have no rows; but nothing was audited then."""
    page = tmp_path / "audit.html"
    before = kipwatch("audit", "--archive", damaged, "--until", "2001-01-01", "--html", page)
    assert before.status == 2
    assert before.errors.endswith(f"kipwatch: nothing was audited: {damaged} has no row in this time\n")
    assert "there is no row to check" in page.read_text()
    assert kipwatch("audit", "--archive", damaged, "--since", "2001-01-01").status == 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--archive", "x", "--until", "June"), "--until must be a day of the archive such as 2026-06-21"),
        (("--archive", "x", "--since", "2026-06-21T10:00"), "--since must be a day of the archive such as"),
        (
            ("--since", "2026-06-31"),
            "--since must be a day or time such as 2026-06-21T14:30, not '2026-06-31'",
        ),
        (("--records", "0"), "--records must be a number above 0"),
    ],
)
def test_mistakes_are_one_line(kipwatch: Kipwatch, flags: tuple[str, ...], expected: str) -> None:
    assert expected in kipwatch("audit", *flags).error_line


@pytest.mark.slow
def test_a_folder_that_is_no_archive_is_refused(kipwatch: Kipwatch, tmp_path: Path) -> None:
    assert "is no archive: it has no table" in kipwatch("audit", "--archive", tmp_path).error_line


POLICY = """
name: fleet
meta: {table: usage}
expectations:
  - type: expect_column_values_to_be_in_set
    kwargs: {column: fate, value_set: [kept]}
    meta: {id: nothing-removed, says: No client sends what the next release removes., action: Upgrade it.}
  - type: expect_column_values_to_be_between
    kwargs: {column: requests, min_value: 0}
    meta: {id: counted, says: Requests are counted.}
"""


@pytest.mark.slow
def test_policies_of_users_are_validated_instead_of_the_suites(
    kipwatch: Kipwatch, archive: Path, tmp_path: Path
) -> None:
    """The planted capture has versions that Kafka 4.4 does not have."""
    (tmp_path / "fleet.yaml").write_text(POLICY)
    ran = kipwatch("audit", "--archive", archive, "--suite", tmp_path, "--json")
    (result,) = json.loads(ran.output.splitlines()[-1])["results"]
    assert (ran.status, result["table"]) == (1, "fleet")
    assert {each["id"]: each["success"] for each in result["outcomes"]} == {
        "counted": True,
        "nothing-removed": False,
    }
    text = kipwatch("audit", "--archive", archive, "--suite", tmp_path).output
    assert "nothing-removed: No client sends what the next release removes. Upgrade it." in text


@pytest.mark.slow
def test_a_policy_that_is_none_is_one_line(kipwatch: Kipwatch, archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(POLICY.replace("fate", "fatum"))
    said = f"{path}: nothing-removed: there is no column fatum; the table has"
    assert kipwatch("audit", "--archive", archive, "--suite", path).error_line.startswith(said)
    assert "name it with --archive" in kipwatch("audit", "--suite", path).error_line
