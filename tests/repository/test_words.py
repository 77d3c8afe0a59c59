"""No file says that it is unfinished, and none knows the machine it was written on."""

from __future__ import annotations

import re

import pytest

from tests.repository.tree import ROOT, files

# Written apart, so that this file does not hold what it looks for.
UNFINISHED = re.compile(
    r"\b(TO"
    r"DO|FIX"
    r"ME|XX"
    r"X|HA"
    r"CK|TB"
    r"D|WI"
    r"P)\b"
    r"|\b[Ff]or n"
    r"ow\b|\b[Pp]lace"
    r"holder"
    # A line of nothing but a name in capitals stands for text that was to come.
    r"|^[A-Z]+_[A-Z_]+$",
    flags=re.MULTILINE,
)
MACHINE = re.compile(
    r"(?<![\w.])/(ho" r"me|Us" r"ers|ro" r"ot|wo" r"rk)/|\.\./sh" r"ared|--(extra-)?index-u" r"rl[ =]"
)
TEXTS = [path for path in files() if b"\0" not in (ROOT / path).read_bytes()]


def found(pattern: re.Pattern[str]) -> list[str]:
    """Every match in a file, each with the path."""
    return [f"{path}: {match[0]}" for path in TEXTS for match in pattern.finditer((ROOT / path).read_text())]


def test_every_file_is_finished() -> None:
    assert found(UNFINISHED) == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    assert found(MACHINE) == []
    assert found(re.compile(re.escape(str(ROOT)))) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (UNFINISHED, "# TO" + "DO: later"),
        (UNFINISHED, "this is enough for n" + "ow"),
        (UNFINISHED, "text\nDEMO_" + "OUTPUT\ntext"),
        (MACHINE, "/ho" + "me/someone/kipwatch"),
        (MACHINE, "see ../sh" + "ared/design.md"),
    ],
)
def test_the_words_are_recognised(pattern: re.Pattern[str], text: str) -> None:
    """A pattern that matched nothing would let everything pass."""
    assert pattern.search(text)
