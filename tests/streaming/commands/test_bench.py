"""`kipwatch bench` names what it cannot run; the benches themselves are tested in their room."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from streaming.commands import bench
from streaming.commands.main import main


def test_without_benches_one_line_says_where_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "ROOM", "streaming.no_such_room")
    assert main(["bench", "decode"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "streaming/bench" in printed.err and "kipwatch bench decode" in printed.err


@pytest.mark.parametrize("name", bench.BENCHES)
def test_each_bench_is_a_file_of_the_room(name: str) -> None:
    assert find_spec(f"{bench.ROOM}.{name}") is not None
