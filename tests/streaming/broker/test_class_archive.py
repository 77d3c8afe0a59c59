"""The archive of the broker's classes: a broker maps its classes from it, and a damaged one is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.broker import class_archive, embedded
from streaming.broker.class_archive import make_class_archive
from streaming.broker.embedded import EmbeddedBroker

pytestmark = pytest.mark.jvm

ARCHIVED = "source: shared objects file (top)"
"""How HotSpot's log names the archive."""


class TellingBroker(EmbeddedBroker):
    """A broker that logs where its classes come from."""

    def __init__(self, loaded: Path) -> None:
        super().__init__()
        self._loaded = loaded

    def _class_flags(self) -> list[str]:
        return [*super()._class_flags(), f"-Xlog:class+load:file={self._loaded}"]


def archived_share(loaded: Path) -> float:
    """Start a broker, and return the share of its own and Kafka's classes that come from the archive."""
    with TellingBroker(loaded):
        pass
    lines = [line for line in loaded.read_text().splitlines() if " kafka." in line or ".kafka." in line]
    assert len(lines) > 1_000
    return sum(ARCHIVED in line for line in lines) / len(lines)


def test_a_broker_maps_its_classes(tmp_path: Path) -> None:
    assert make_class_archive()
    assert archived_share(tmp_path / "loaded.log") > 0.8


@pytest.mark.long
def test_a_damaged_archive_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of an archive would crash the JVM that maps it."""
    assert make_class_archive()
    damaged = tmp_path / "broker.jsa"
    damaged.write_bytes(embedded.archived_classes().read_bytes()[:100_000])
    for module in (embedded, class_archive):
        monkeypatch.setattr(module, "archived_classes", lambda: damaged)
    assert make_class_archive()
    assert archived_share(tmp_path / "loaded.log") > 0.8


@pytest.mark.long
def test_a_broker_starts_without_one_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "broker.jsa"
    other.write_text("the archive of another Java")
    monkeypatch.setattr(embedded, "archived_classes", lambda: other)
    assert archived_share(tmp_path / "loaded.log") == 0
