"""`kipwatch prepare` says what it does before each step that takes long, and leaves nothing to compile."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest
from numba.core.dispatcher import Dispatcher

from streaming.commands import prepare
from streaming.commands.main import main
from tests.captures import planted
from tests.streaming.commands.ran import Kipwatch


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each slow step by a line of output."""
    monkeypatch.setattr(prepare, "jars", lambda _name, _say: print("fetched"))
    monkeypatch.setattr(prepare, "_compile", lambda: print("compiled"))


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


def compiled() -> Iterator[tuple[str, str]]:
    """Yield the compiled functions of all loaded modules, with the types that each was compiled for."""
    for module in list(sys.modules.values()):
        for value in vars(module).values():
            if isinstance(value, Dispatcher):
                yield from ((value.py_func.__qualname__, str(types)) for types in value.signatures)


def compiled_by_check_alone() -> set[tuple[str, str]]:
    """Return what `check` compiles in this process after `prepare`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "find_spec", lambda _name: None)
        assert main(["prepare"]) == 0
    before = {*compiled()}
    assert before
    main(["check", str(planted.CAPTURE)])
    return {*compiled()} - before


def test_what_check_needs_was_compiled() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        assert process.submit(compiled_by_check_alone).result() == set()
