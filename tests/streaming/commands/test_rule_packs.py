"""Rule packs on the command line: begun, checked, refused, and judged by as kipwatch's own rules are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exchange import Exchange
from tests.expectations.rules.test_packs import RULE, break_page, edited
from tests.rule_pack import install, searched
from tests.streaming.captures import write_capture
from tests.streaming.commands.ran import Kipwatch, run_process


def insistent() -> Exchange:
    """A connection that asks for the supported versions five times."""
    exchange = Exchange()
    for _ in range(5):
        exchange.negotiate(3)
    return exchange


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write_capture(tmp_path / "insistent.pcap", insistent())


def test_a_new_pack_is_installed_by_pip_and_found_in_order(
    tmp_path: Path, kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert kipwatch("rules", "new", RULE).output.endswith(
        "pip install --editable ./kipwatch-acme && kipwatch rules --check acme\n"
    )
    kipwatch("rules", "new", "acme/asks-late")
    edited(Path("kipwatch-acme/kipwatch_acme/asks_late.py"), "MOST = 2", "MOST = 4")
    quiet = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", *quiet, "--target", "site", "./kipwatch-acme"]
    subprocess.run(pip, check=True)
    monkeypatch.undo()
    ran = run_process("rules", "--check", "acme", PYTHONPATH=searched(tmp_path / "site"))
    assert ran.status == 1
    first = "acme/asks-late, Once more than twice: judged as a whole, it yields: conforms 3"
    assert ran.output.startswith(first), ran


def test_a_rule_that_is_there_is_not_begun_again(
    tmp_path: Path, kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kipwatch("rules", "new", RULE)
    assert kipwatch("rules", "new", RULE).error_line.endswith("versions_asked_often.py is there already")
    assert "is no ID" in kipwatch("rules", "new", "acme").error_line
    Path("kipwatch-other").touch()
    assert "cannot write into kipwatch-other" in kipwatch("rules", "new", "other/late").error_line


def test_a_sound_pack_is_checked_listed_and_explained(tmp_path: Path) -> None:
    install(tmp_path)
    installed = searched(tmp_path)
    assert run_process("rules", "--check", "acme", PYTHONPATH=installed) == (
        0,
        "acme: 1 rule, with page, requirement and cases\n",
        "",
    )
    first, *_ = json.loads(run_process("rules", "--json", PYTHONPATH=installed).output)
    assert first["id"] == RULE
    assert "What to do" in run_process("rules", RULE, PYTHONPATH=installed).output
    unknown = run_process("rules", "--check", "acne", PYTHONPATH=installed).error_line
    assert unknown == "there is no rule pack 'acne'; did you mean acme?"


def forget_a_requirement(package: Path, rule: str, cases: Path) -> str:
    edited(package / "requirements.toml", f'"acme/{rule}"', "")
    return "judges no requirement of requirements.toml"


def weigh_too_much(package: Path, rule: str, cases: Path) -> str:
    edited(
        package / "requirements.toml",
        f'rules = ["acme/{rule}"]',
        f'rules = ["acme/{rule}"]\ndemand = "choice"',
    )
    return "is of level improvement, and its requirements make it at most information"


def forget_the_cases(package: Path, rule: str, cases: Path) -> str:
    cases.unlink()
    return f"write its cases to {cases}"


def forget_what_is_undecided(package: Path, rule: str, cases: Path) -> str:
    cases.write_text(cases.read_text().partition("## Once on a connection that")[0])
    return "has no case that is undecided"


def expect_too_much(package: Path, rule: str, cases: Path) -> str:
    edited(cases, "conforms 2, violates 1", "conforms 1, violates 2")
    return "Once more than twice: judged as a whole, it yields: conforms 2, violates 1; "


def say_what_nobody_understands(package: Path, rule: str, cases: Path) -> str:
    edited(cases, "joined mid-stream", "joined late")
    return "cannot be played: ValueError: not a line of the notation: joined late"


def imply_nothing(package: Path, rule: str, cases: Path) -> str:
    module = package / f"{cases.stem}.py"
    edited(module, "    State = Asked", '    State = Asked\n    implies = ("acme/nothing",)')
    return "implies acme/nothing, which is no rule"


FAULTS = (
    forget_a_requirement,
    weigh_too_much,
    forget_the_cases,
    forget_what_is_undecided,
    expect_too_much,
    say_what_nobody_understands,
    imply_nothing,
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_wrong_with_a_pack_is_told(tmp_path: Path) -> None:
    """A rule for each fault, and each is told once. All judge the same, so a case has the findings of all."""
    told = []
    rules = [fault.__name__.replace("_", "-") for fault in FAULTS]
    for rule in rules:
        package = install(tmp_path, offence=rule)
    for fault, rule in zip(FAULTS, rules, strict=True):
        cases = package / "cases" / f"{fault.__name__}.md"
        others = "".join(
            f"improvement acme/{other}: ApiVersions was asked for more than 2 times on one connection\n"
            for other in rules
        )
        edited(
            cases,
            f"improvement acme/{rule}: ApiVersions was asked for more than 2 times on one connection\n",
            others,
        )
        told.append((f"acme/{rule}", fault(package, rule, cases)))
    ran = run_process("rules", "--check", "acme", PYTHONPATH=searched(tmp_path))
    lines = ran.output.splitlines()
    assert (ran.status, ran.errors, len(lines)) == (1, "", len(FAULTS))
    for rule, fault_told in told:
        assert any(rule in line and fault_told in line for line in lines), (rule, lines)


def test_check_and_report_judge_by_a_pack(tmp_path: Path, capture: Path) -> None:
    install(tmp_path)
    installed = searched(tmp_path)
    checked = json.loads(run_process("check", capture, "--json", PYTHONPATH=installed).output)
    (finding,) = (each for each in checked["findings"] if each["rule"] == RULE)
    assert (finding["occurrences"], finding["kip"], finding["level"]) == (3, "acme", "improvement")
    assert finding["runbook"] == "https://wiki.example/kafka-rules#acmeversions-asked-often"
    covered = {row["rule"]: row for row in checked["coverage"]}
    assert (covered[RULE]["conforms"], covered[RULE]["violates"]) == (2, 3)
    reported = run_process("report", capture, PYTHONPATH=installed)
    assert f"{RULE} " in reported.output, reported


@pytest.mark.parametrize("command", [["rules"], ["check"], ["report"]], ids=lambda command: command[0])
def test_a_command_refuses_a_broken_pack(command: list[str], tmp_path: Path, capture: Path) -> None:
    break_page(install(tmp_path))
    given = [*command, *([capture] if command != ["rules"] else [])]
    line = run_process(*given, PYTHONPATH=searched(tmp_path)).error_line
    assert line.startswith(
        f"the rule pack kipwatch_acme is refused: {RULE} has a page whose headings are not"
    )


def test_without_its_pack_an_archive_is_still_read(tmp_path: Path, capture: Path) -> None:
    install(tmp_path)
    archive = tmp_path / "archive"
    assert run_process("report", capture, "--archive", archive, PYTHONPATH=searched(tmp_path)).status == 0
    read = run_process("report", archive, "--versions")
    assert (read.status, read.errors) == (0, "")
