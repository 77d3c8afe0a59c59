"""What commands print fits the terminal: nothing runs over its edge, nothing that identifies is cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from decoders.schema.registry import default_schemas
from expectations.rules.catalogue import RULES
from streaming.commands.main import COMMANDS
from tests.captures import planted
from tests.streaming.commands.ran import Kipwatch

SENTENCES = (f"{planted.CAPTURE}: ",)
"""The beginnings of lines that are one sentence, which a terminal wraps and a file has whole."""
PRINTED = (
    ("--help",),
    ("rules",),
    ("rules", "kip1082/member-id-changed"),
    ("report", planted.CAPTURE),
    ("schemas",),
)
Printed = Callable[..., str]


@pytest.fixture
def printed(kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """Run a command at a terminal's width. Returns its output."""

    def run(*arguments: object, width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        return kipwatch(*arguments).output

    return run


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("arguments", PRINTED, ids=lambda arguments: " ".join(map(str, arguments[:2]))[:40])
def test_no_line_is_wider_than_the_terminal(
    printed: Printed, arguments: tuple[object, ...], width: int
) -> None:
    lines = printed(*arguments, width=width).splitlines()
    assert len(lines) > 10
    assert [line for line in lines if cell_len(line) > width and not line.startswith(SENTENCES)] == []


def test_names_are_whole_on_a_narrow_terminal(printed: Printed) -> None:
    rules = printed("rules", width=60)
    assert [rule.id for rule in RULES if rule.id not in rules] == []
    commands = printed("--help", width=60)
    assert [name for name in COMMANDS if f"\n  {name} " not in commands] == []
    apis = printed("schemas", width=60).split()
    assert [api.name for api in default_schemas().apis if api.name not in apis] == []
