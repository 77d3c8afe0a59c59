"""Only jars with the recorded SHA-256 get into the cache."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from streaming.broker import jars as cache
from streaming.broker.ivy import PINS, S3_PINS
from streaming.broker.jar_digests import record, verify
from streaming.broker.jars import jars
from streaming.user_error import UserError
from tests.pins import pinned_by

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    """Pins with two recorded jars."""
    pins = tmp_path / "ivy.xml"
    pins.write_text("<ivy-module/>")
    record(pins, fetched(tmp_path / "recorded"))
    return pins


def fetched(home: Path) -> Path:
    """Return a folder of jars as Ivy leaves it."""
    for name in ("broker/a-1.jar", "connector/b-2.jar"):
        jar = home / name
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(name.encode())
    return home


def test_recorded_jars_pass(pins: Path, tmp_path: Path) -> None:
    verify(fetched(tmp_path / "new"), pins)


def test_an_altered_jar_is_named_with_both_digests(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    (home / "broker" / "a-1.jar").write_bytes(b"something else")
    with pytest.raises(
        UserError, match=r"broker/a-1\.jar is not the recorded jar: .* [0-9a-f]{64}, .* [0-9a-f]{64};"
    ):
        verify(home, pins)


def test_a_jar_that_nobody_recorded_is_refused(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    (home / "broker" / "c-3.jar").touch()
    with pytest.raises(UserError, match=r"broker/c-3\.jar is not recorded in ivy\.sha256"):
        verify(home, pins)


def test_a_recorded_jar_that_was_not_fetched_is_named(pins: Path, tmp_path: Path) -> None:
    home = fetched(tmp_path / "new")
    (home / "connector" / "b-2.jar").unlink()
    with pytest.raises(UserError, match=r"connector/b-2\.jar was not fetched"):
        verify(home, pins)


def test_without_a_list_nothing_is_taken(pins: Path, tmp_path: Path) -> None:
    pins.with_suffix(".sha256").unlink()
    with pytest.raises(UserError, match=r"ivy\.sha256 is missing, so no jar can be verified; record it"):
        verify(fetched(tmp_path / "new"), pins)


def test_an_altered_jar_never_reaches_the_cache(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retrieve(_pins: Path, target: Path, _report: object) -> None:
        (fetched(target) / "broker" / "a-1.jar").write_bytes(b"altered on the way")
        (target / "ivy").mkdir()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "retrieve", retrieve)
    with pinned_by(pins), pytest.raises(UserError, match="is not the recorded jar"):
        jars("broker")
    assert [path.suffix for path in (tmp_path / "kipwatch" / "jars").iterdir()] == [".lock"]


LISTS = [PINS, ROOT / "tests/oracle/ivy.xml", ROOT / "tests/decoders/schema/releases.xml"]


@pytest.mark.parametrize("pins", [*LISTS, S3_PINS])
def test_every_pinned_jar_is_recorded(pins: Path) -> None:
    recorded = pins.with_suffix(".sha256").read_text()
    for dependency in ElementTree.parse(pins).getroot().findall("dependencies/dependency"):
        configuration = dependency.get("conf", "").partition("->")[0]
        assert f"  {configuration}/{dependency.get('name')}-{dependency.get('rev')}" in recorded, (
            f"run `python -m streaming.broker.jar_digests {pins}`"
        )


@pytest.mark.jvm
@pytest.mark.parametrize("pins", LISTS)
def test_every_list_is_of_the_jars_that_its_pins_bring(pins: Path) -> None:
    with pinned_by(pins):
        jars("broker")
        verify(cache._cache() / cache._digest(pins), pins)
