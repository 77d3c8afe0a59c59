"""What a query takes over on SIGHUP: owners that changed in their file, and not a file with a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from expectations.judging.terms import ClientNames
from streaming.query.application import Application
from streaming.settings.configuration import Configuration

OWNERS = '[[owner]]\nname = "before"\nclient_id = "*"\n'


class Reloaded:
    """An application that has not been started, and the file of its owners."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "owners.toml"
        self.file.write_text(OWNERS)
        self.configuration = Configuration(owners=str(self.file), checkpoint=str(folder / "checkpoint"))
        self._application = Application(self.configuration, lambda: self.configuration)

    def with_file(self, text: str) -> bool:
        """Whether the query is started anew for a file."""
        self.file.write_text(text)
        return self._application._take_over_decisions()

    @property
    def owner(self) -> str | None:
        """Whose a client is by the terms of the next start."""
        return self._application._decisions.terms.owner(ClientNames("10.0.0.1", "app", None))


@pytest.fixture
def reloaded(tmp_path: Path) -> Reloaded:
    return Reloaded(tmp_path)


def test_owners_that_changed_are_taken_over(reloaded: Reloaded) -> None:
    assert reloaded.owner == "before"
    assert not reloaded.with_file(OWNERS)
    assert reloaded.with_file(OWNERS.replace("before", "after"))
    assert reloaded.owner == "after"


def test_a_mistake_is_refused_in_one_line_and_the_owners_before_stay(
    reloaded: Reloaded, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if the query must be started anew for another reason: the file is not read then."""
    assert not reloaded.with_file("[[owner]]\nname = 1")
    (record,) = (each for each in caplog.records if each.message == "decisions-refused")
    line = vars(record)["kipwatch_fields"]["line"]
    assert line.startswith(f"{reloaded.file}:2: owner[0].name is 1") and "\n" not in line
    assert reloaded.owner == "before"
    reloaded.file.unlink()
    assert reloaded.owner == "before"
