"""Rule packs: each is found by its entry point, and one that is broken is refused whole, in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from expectations.judging.finding import runbook_anchor
from expectations.rules.packs import load_packs
from tests.rule_pack import OFFENCE, install, register

RULE = f"acme/{OFFENCE}"
MODULE = "versions_asked_often.py"


def edited(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def break_import(package: Path) -> None:
    (package / MODULE).write_text("import no_such_library\n")


def break_syntax(package: Path) -> None:
    edited(package / MODULE, "def on_request(", "def on_request((")


def end_in_import(package: Path) -> None:
    (package / "_helpers.py").write_text("raise SystemExit('bye')\n")
    edited(package / MODULE, "import msgspec\n", "import msgspec\nimport kipwatch_acme._helpers\n")


def break_page(package: Path) -> None:
    edited(package / MODULE, "## What to do", "## What else")


def break_state(package: Path) -> None:
    edited(package / MODULE, "times: Few = 0", "times: int = 0")


def put_two_rules_in_a_file(package: Path) -> None:
    edited(package / MODULE, "MOST = 2", "MOST = 2\n\n\nclass Another(Rule):\n    pass\n")


def take_our_name(package: Path) -> None:
    register(package.parent, "kip9999", "kipwatch_acme")


def take_a_taken_name(package: Path) -> None:
    register(package.parent, "acme", "kipwatch_acme2")


def name_another_package(package: Path) -> None:
    register(package.parent, "other", "kipwatch_acme")


def forget_the_runbook(package: Path) -> None:
    (package / "__init__.py").write_text("")


def forget_the_rules(package: Path) -> None:
    (package / MODULE).unlink()


FAULTS: dict[Callable[[Path], None], str] = {
    break_import: "ModuleNotFoundError: No module named 'no_such_library'",
    break_syntax: "SyntaxError",
    end_in_import: "cannot be imported: SystemExit: bye",
    break_page: f"{RULE} has a page whose headings are not",
    break_state: f"{RULE} has a state in which Asked.times needs another type",
    put_two_rules_in_a_file: "must define exactly one rule, not 2",
    take_our_name: "its name 'kip9999' is taken",
    take_a_taken_name: "its name 'acme' is taken",
    name_another_package: "its entry point must read `NAME = kipwatch_NAME`",
    forget_the_runbook: "does not say RUNBOOK",
    forget_the_rules: "it has no rule",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is searched, and whose packages nobody remembers."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("kipwatch_acme")]:
        del sys.modules[name]


def test_a_pack_has_its_rules_and_its_address(folder: Path) -> None:
    package = install(folder)
    ((pack,), refused) = load_packs()
    assert refused == {}
    assert (pack.prefix, pack.folder) == ("acme", package)
    (rule,) = pack.rules
    assert (rule.id, rule.family, rule.kip) == (RULE, "acme", "acme")
    assert rule.state_name == "acme_versions_asked_often"
    assert runbook_anchor(rule) == "https://wiki.example/kafka-rules#acmeversions-asked-often"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_broken_pack_is_refused_in_one_line(fault: Callable[[Path], None], folder: Path) -> None:
    fault(install(folder))
    packs, refused = load_packs()
    (line,) = refused.values()
    assert FAULTS[fault] in line
    assert "\n" not in line
    # What is refused leaves no rule behind, and another pack of the machine stays.
    assert len(packs) == (fault in (take_our_name, take_a_taken_name, name_another_package))
