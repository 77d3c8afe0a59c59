"""`make long` goes on where it was stopped, and runs again what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import long_tests
from tests.long_tests import Part, run_all

PARTS = [Part("tests/a.py"), Part("tests/b.py"), Part("tests/c.py")]


def test_a_second_run_begins_with_what_has_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    failing = {"tests/b.py"}

    def run(part: Part) -> bool:
        ran.append(part.file)
        return part.file not in failing

    monkeypatch.setattr(long_tests, "run", run)
    remembered = tmp_path / "long" / "commit"
    assert run_all(PARTS, remembered) == [PARTS[1]]
    failing.clear()
    assert run_all(PARTS, remembered) == []
    assert ran == ["tests/a.py", "tests/b.py", "tests/c.py", "tests/b.py"]
    assert run_all(PARTS, None) == []
    assert len(ran) == 7


def test_a_part_passes_if_its_tests_do(tmp_path: Path) -> None:
    (tmp_path / "test_part.py").write_text(
        "import pytest\n@pytest.mark.slow\ndef test_passes(): pass\ndef test_fails(): assert 0\n"
    )
    assert long_tests.run(Part(str(tmp_path / "test_part.py"), "slow"))
    assert not long_tests.run(Part(str(tmp_path / "test_part.py"), "not slow"))
