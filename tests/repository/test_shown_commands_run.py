"""The commands that pages show about captures are run, in a folder with captures of those names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from streaming.commands.main import main
from tests.captures import planted, real_clients
from tests.repository.test_shown_commands import shown
from tests.repository.tree import ROOT

PAGES = ("README.md", "docs/check.md", "docs/install.md")
OFFLINE = ("check", "decode", "report", "rules", "completion", "doctor")
SHOWN = [
    words
    for page, words in shown()
    if page in PAGES and words[0] in OFFLINE and not any(word.endswith(".jar") for word in words)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name."""
    for name in ("kipwatch-demo.pcap", "client-tests.pcap", "captures/mine.pcap"):
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        shutil.copy(planted.CAPTURE, place)
    shutil.copy(real_clients.CAPTURE, tmp_path / "captures")
    (features,) = re.findall(r"^ {4}(share-groups = .*)$", (ROOT / "docs/check.md").read_text(), re.MULTILINE)
    (tmp_path / "features.toml").write_text(features)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_shown_command_runs(words: list[str], folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It exits as it should, prints something, and writes the files that it names."""
    offends = words[0] in ("check", "doctor")
    before = set(folder.rglob("*"))
    assert main(words) in ((0, 1) if offends else (0,))
    output = capfd.readouterr()
    assert output.out
    named = {folder / word for word in words if word.endswith((".html", ".xml"))}
    assert named <= set(folder.rglob("*")) - before


def test_the_pages_show_commands_of_every_kind() -> None:
    assert {words[0] for words in SHOWN} == set(OFFLINE)
