"""What the documents say of the repository is so: the file map, links, commands and targets."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

import pytest

from streaming.commands.main import COMMANDS
from tests.repository.tree import ROOMS, ROOT, files, modules

DOCUMENTS = [path for path in files() if path.suffix == ".md" and path.parts[0] != "tests"]


def mapped() -> list[str]:
    """The entries of DESIGN.md's file map: the names in code of a row's first cell, by room."""
    design = (ROOT / "DESIGN.md").read_text()
    headings = [*re.finditer(r"^#+ (\w+)", design, flags=re.MULTILINE)]
    spans = [(one[1], one.end(), other.start()) for one, other in pairwise(headings)]
    spans.append((headings[-1][1], headings[-1].end(), len(design)))
    return [
        f"{room}/{name}"
        for room, begin, end in spans
        if room in ROOMS
        for cell in re.findall(r"^\|([^|]*)\|", design[begin:end], flags=re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", cell)
    ]


def covers(entry: str, path: Path) -> bool:
    """Whether an entry names a file; `kip_XXXX` and `<offence>` stand for any."""
    return fnmatch(str(path), re.sub(r"<\w+>|X{2,}", "*", entry))


def test_the_file_map_names_every_module() -> None:
    entries = mapped()
    missing = [str(path) for path in modules(*ROOMS) if not any(covers(entry, path) for entry in entries)]
    assert missing == []


def test_what_the_file_map_names_is_there() -> None:
    known = files()
    folders = {f"{folder}/" for path in known for folder in path.parents}
    gone = [
        entry for entry in mapped() if entry not in folders and not any(covers(entry, path) for path in known)
    ]
    assert gone == []
    assert len(mapped()) > 20


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    """Files by their path; places in a file by a heading there."""
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", (ROOT / document).read_text())
    dead = [link for link in links if not leads_somewhere(document, link)]
    assert dead == []


def leads_somewhere(document: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (ROOT / document).parent / name if name else ROOT / document
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text())


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown renderer makes of headings."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_commands_and_targets_that_are_shown_exist(document: Path) -> None:
    """In code: `kipwatch NAME` and `make NAME`."""
    text = (ROOT / document).read_text()
    code = re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL)
    commands = {name for part in code for name in re.findall(r"\bkipwatch ([a-z]+)\b(?![:/])", part)}
    targets = {name for part in code for name in re.findall(r"\bmake ([a-z]+)\b", part)}
    makefile = (ROOT / "Makefile").read_text()
    assert commands <= COMMANDS.keys()
    assert targets <= set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))


def test_every_command_is_a_file_and_every_file_a_command() -> None:
    found = {path.stem for path in modules("streaming") if path.parent == Path("streaming/commands")}
    assert found - {"main"} == COMMANDS.keys()
