"""The generated files are what the builders make, and a drift is reported by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.build import GENERATED, REPOSITORY, artefacts, drifted, main, write
from dashboards.runbook import HEAD, RUNBOOK


def test_the_committed_files_have_not_drifted() -> None:
    files = "\n".join(map(str, drifted(REPOSITORY)))
    assert not files, f"write them anew, `make docs`:\n{files}"


def test_a_changed_and_a_missing_file_are_named(tmp_path: Path) -> None:
    """The check names the file, and building mends it."""
    assert drifted(tmp_path) == list(artefacts())
    write(tmp_path)
    assert drifted(tmp_path) == []
    changed = tmp_path / "dashboards/generated/alerts.yml"
    changed.write_text(changed.read_text() + "# edited by hand\n")
    assert drifted(tmp_path) == ["dashboards/generated/alerts.yml"]


def test_a_page_of_a_rule_that_is_gone_is_named_and_removed(tmp_path: Path) -> None:
    write(tmp_path)
    gone = tmp_path / "docs/rules/kip35/never-was.md"
    gone.write_text(f"{HEAD}\n# kip35/never-was\n")
    assert drifted(tmp_path) == ["docs/rules/kip35/never-was.md"]
    write(tmp_path)
    assert not gone.exists()


def test_a_page_that_nobody_generated_stays(tmp_path: Path) -> None:
    """A platform team writes into the folder of its own runbook."""
    own = tmp_path / "docs/rules/naming.md"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"# How we name clients: caf\xe9-*\n")
    write(tmp_path)
    assert own.exists()
    assert drifted(tmp_path) == []


def test_a_platform_team_gets_all_of_it_with_links_to_its_own_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing leads to the stack or the repository of the committed files."""
    own = ["--folder", str(tmp_path), "--grafana", "https://grafana.example", "--runbook", "https://wiki/run"]
    monkeypatch.setattr("sys.argv", ["build", *own])
    assert main() == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert written == artefacts().keys()
    for path in (path for path in written if path.startswith(GENERATED)):
        text = (tmp_path / path).read_text()
        assert "127.0.0.1:3000" not in text and RUNBOOK not in text
    assert "https://wiki/run#kipwatchstalled" in (tmp_path / GENERATED / "alerts.yml").read_text()


@pytest.mark.parametrize(
    "flags",
    [["--folder", "mixin"], ["--grafana", "g", "--runbook", "r"], ["--application", "http://kipwatch:9108"]],
)
def test_links_that_would_lead_nowhere_are_refused(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["build", *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "go together" in capsys.readouterr().err
