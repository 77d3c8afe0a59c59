"""What the documents say of the repository is true: file map, paths, links, commands, targets, versions."""

from __future__ import annotations

import fnmatch
import functools
import re
import tomllib
from pathlib import Path

from streaming.broker.jars import PINS
from streaming.commands.main import COMMANDS
from tests.pins import dependencies
from tests.repository.file_map import (
    MAP,
    RULES_BY_PATH,
    docstring,
    file_map,
    first_line,
    python_files,
    tells_more_than_its_name,
)
from tests.repository.tree import ROOMS, ROOT, anchors, files, modules

DOCUMENTS = [path for path in files() if path.suffix == ".md" and path.parts[0] != "tests"]
LONGEST_FIRST_LINE = 107
NAMES_KAFKA = (
    "README.md",
    "deploy/README.md",
    "deploy/compose.yaml",
    "deploy/ci/github-workflow.yml",
    "deploy/ci/gitlab-ci.yml",
)
"""Files that name the version of Kafka which the demo, an image or a test of the stack runs."""


def test_the_file_map_has_not_drifted() -> None:
    has_drifted = (ROOT / MAP).read_text() != file_map()
    assert not has_drifted, f"write {MAP} anew: `make docs`"


def test_the_file_map_names_every_module() -> None:
    lines = re.findall(r"^- \*\*(\S+)\*\*: (.*)$", file_map(), flags=re.MULTILINE)
    named = {Path(folder, f"{name}.py") for folder, line in lines for name in re.findall(r"`(\w+)`", line)}
    assert len(modules(*ROOMS)) > 200
    assert set(modules(*ROOMS)) - named == set()


def test_a_name_that_says_less_than_its_line_is_explained() -> None:
    lines = set(file_map().splitlines())
    explained = [path for path in modules(*ROOMS) if tells_more_than_its_name(path)]
    assert 0 < len(explained) < len(modules(*ROOMS)) / 2
    assert [path for path in explained if f"    - `{path.stem}`: {first_line(path)}" not in lines] == []


def test_modules_and_packages_say_in_their_first_line_what_they_are_about() -> None:
    """A rule's first line is on its page."""
    firsts = {path: docstring(path).splitlines()[:2] for path in python_files() if path not in RULES_BY_PATH}
    assert [path for path, lines in firsts.items() if not _is_one_sentence_line(lines)] == []


def _is_one_sentence_line(lines: list[str]) -> bool:
    match lines:
        case [line] | [line, ""]:
            return line.endswith(".") and " " in line and len(line) <= LONGEST_FIRST_LINE
    return False


def test_paths_that_are_named_exist() -> None:
    assert {
        document: gone for document in DOCUMENTS if (gone := paths_that_are_gone(text_of(document)))
    } == {}


def test_a_path_that_is_gone_is_noticed() -> None:
    """`*` and `<name>` stand for any name; a folder may end with a slash."""
    assert (
        paths_that_are_gone("`tests/repository/`, `streaming/*/query.py`, `dashboards/pages/<alert>.md`")
        == []
    )
    assert paths_that_are_gone("`streaming/nothing.py`, `tests/nothing`") == [
        "streaming/nothing.py",
        "tests/nothing",
    ]


@functools.cache
def known_paths() -> frozenset[str]:
    """All files and folders of the repository."""
    return frozenset(str(path) for file in files() for path in (file, *file.parents))


def paths_that_are_gone(text: str) -> list[str]:
    """Return the paths from the root that a document names in code and that do not exist."""
    known = known_paths()
    tops = "|".join({path.split("/")[0] for path in known if "/" in path})
    named = re.findall(rf"`((?:{tops})/[\w./*<>-]+)`", text)
    patterns = {path: re.sub(r"<\w+>", "*", path.rstrip("/")) for path in named}
    return [path for path, pattern in patterns.items() if not fnmatch.filter(known, pattern)]


def test_links_lead_somewhere() -> None:
    """Files by their path; places in a file by a heading there."""
    dead = {
        document: link
        for document in DOCUMENTS
        for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text_of(document))
        if not leads_somewhere(document, link)
    }
    assert dead == {}


def leads_somewhere(document: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (ROOT / document).parent / name if name else ROOT / document
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target)


def test_commands_that_are_shown_exist() -> None:
    """In code: `kipwatch NAME`."""
    shown = {
        name
        for document in DOCUMENTS
        for code in code_of(document)
        for name in re.findall(r"\bkipwatch ([a-z]+)\b(?![:/])", code)
    }
    assert len(shown) > 8
    assert shown - COMMANDS.keys() == set()


def test_targets_that_are_shown_exist() -> None:
    """In code: `make NAME`."""
    makefile = (ROOT / "Makefile").read_text()
    shown = {
        name
        for document in DOCUMENTS
        for code in code_of(document)
        for name in re.findall(r"\bmake ([a-z]+)\b", code)
    }
    assert len(shown) > 5
    assert shown - set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE)) == set()


def test_every_command_is_a_file_and_every_file_a_command() -> None:
    found = {path.stem for path in modules("streaming") if path.parent == Path("streaming/commands")}
    assert found - {"main"} == COMMANDS.keys()


def test_the_kafka_of_pages_and_images_is_the_pinned_one() -> None:
    (pinned,) = (each.get("rev") for each in dependencies(PINS) if each.get("name") == "kafka_2.13")
    for name in NAMES_KAFKA:
        text = (ROOT / name).read_text()
        named = set(re.findall(r"(?:apache/kafka:|Kafka |pinned jars of )(\d+\.\d+\.\d+)", text))
        assert named == {pinned}, f"{name} names Kafka {sorted(named)}, {PINS.name} pins {pinned}"


def test_unreleased_changes_stand_above_those_of_the_version() -> None:
    """A version's heading may have a date behind it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[:2] == ["Unreleased", version]
    assert len(headings) == len(set(headings))


def text_of(document: Path) -> str:
    return (ROOT / document).read_text()


def code_of(document: Path) -> list[str]:
    """Return the code of a document: blocks, and spans within a line."""
    return re.findall(r"```.*?```|`[^`\n]+`", text_of(document), flags=re.DOTALL)
