"""`kipwatch prepare` says what it does before each step that takes long."""

from __future__ import annotations

import pytest

from streaming.commands import prepare
from tests.streaming.commands.ran import Kipwatch


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each slow step by a line of output."""
    monkeypatch.setattr(prepare, "jars", lambda _name, _say: print("fetched"))
    monkeypatch.setattr(prepare, "Feeder", lambda *_arguments, **_named: print("compiled"))


@pytest.mark.usefixtures("steps")
def test_each_step_is_announced(kipwatch: Kipwatch) -> None:
    looking, fetched, compiling, compiled = kipwatch("prepare").output.splitlines()
    assert "missing ones are downloaded" in looking and fetched == "fetched"
    assert "compiling" in compiling and "takes a minute the first time" in compiling
    assert compiled == "compiled"


@pytest.mark.usefixtures("steps")
def test_without_spark_no_jars_are_fetched(kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "find_spec", lambda _name: None)
    lines = kipwatch("prepare").output.splitlines()
    assert "kipwatch[run] has it" in lines[0] and "fetched" not in lines
