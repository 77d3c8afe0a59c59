"""Rule packs: each is found by its entry point, and what is broken or lacks the form is told in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from expectations.conversation.observation import Observation
from expectations.conversation.own_values import ClientId, Few
from expectations.judging.finding import runbook_anchor
from expectations.rules.base.rule import Level, Role, Rule, conforms
from expectations.rules.packs import faults, load_packs
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


class Remembered(msgspec.Struct):
    """A state of everything that a state may hold."""

    client_id: ClientId = ""
    times: Few = 0
    is_first: bool = True
    pending: Observation | None = None
    by_name: dict[str, list[Few]] = {}


class Sound(Rule):
    """Checks that nothing is wrong.

    ## Why it matters
    Each part of a page is read.

    ## Example
    One that has all its parts.

    ## What to do
    Write what somebody would ask.

    ## What it does not cover
    Whether it is true what it says.
    """

    section = "Tests"
    requirement = "A rule has a form."
    needs = "a request of any kind"
    message = "{who} has no form"
    level = Level.VIOLATION
    role = Role.CLIENT
    State = Remembered

    def on_request(self, request: Any, conversation: Any, state: Any) -> Iterator[Any]:
        yield conforms()


class Unmarked(msgspec.Struct):
    times: int = 0


class Unsorted(msgspec.Struct):
    seen: set[str] = set()


class Ambiguous(msgspec.Struct):
    either: dict[str, Few] | list[Few] = []


class Demanding(msgspec.Struct):
    times: Few


def test_a_sound_rule_has_no_fault() -> None:
    assert list(faults(Sound())) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"needs": ""}, "has needs that do not continue a sentence"),
        ({"requirement": "A form"}, "has a requirement that is no sentence"),
        ({"section": ""}, "has a section that names no place"),
        ({"message": "{0} has no form"}, "has a message with something else than a name in braces"),
        ({"message": "It has no form."}, "has a message that is not one line in lower case without a period"),
        ({"level": "grave"}, "has a level or a role that is none"),
        ({"on_requests": lambda *_: ()}, "has methods that nobody calls: on_requests"),
        ({"__doc__": "Says something.\n" + (Sound.__doc__ or "").partition("\n")[2]}, '"Checks"'),
        (
            {"__doc__": (Sound.__doc__ or "").replace("## Example", "## Examples")},
            "has a page whose headings",
        ),
        ({"__doc__": (Sound.__doc__ or "").replace("One that has", "").replace("all its", "")}, "5 words"),
        ({"__doc__": None}, "has a page that"),
        ({"State": Unmarked}, "in which Unmarked.times needs another type"),
        ({"State": Unsorted}, "in which Unsorted.seen needs another type"),
        ({"State": Ambiguous}, "in which Ambiguous.either needs another type"),
        ({"State": Demanding}, "a field without a default"),
        ({"State": dict}, "has a state that is no msgspec.Struct"),
    ],
)
def test_a_fault_is_told(changes: dict[str, Any], told: str, new: Callable[..., Rule]) -> None:
    assert any(told in fault for fault in faults(new(changes)))


def test_what_a_rule_lacks_is_told(new: Callable[..., Rule]) -> None:
    class Bare(Rule):
        pass

    assert list(faults(Bare())) == ["has no section, requirement, needs, message, level, role"]


@pytest.fixture
def new() -> Callable[..., Rule]:
    return lambda changes: type(
        "Changed", (Sound,), {"__module__": __name__, "__doc__": Sound.__doc__, **changes}
    )()
