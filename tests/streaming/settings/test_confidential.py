"""Captures and evidence are for their owner only, and `identities` has a usable key."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.finding import Suppressed
from streaming.check.examination import examine
from streaming.settings.confidential import open_private, open_save, pseudonyms_of
from streaming.settings.configuration import Configuration, Suppression
from streaming.settings.decisions import Decisions
from streaming.user_error import UserError
from tests.streaming.captures import violating, write_capture

KEY = "a key of some thirty-two bytes !"
RULE = "kip1313/instance-id-changed"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no moment between its creation and a change of its mode."""
    monkeypatch.setattr(os, "fchmod", lambda descriptor, mode: None)
    before = os.umask(0)
    try:
        with open_save(tmp_path / "capture.pcap"):
            pass
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "capture.pcap") == 0o600


def test_a_file_that_exists_is_closed_to_others_and_emptied(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_text("earlier")
    path.chmod(0o644)
    with open_private(path) as stream:
        stream.write(b"new")
    assert (mode_of(path), path.read_bytes()) == (0o600, b"new")


def test_a_full_disk_is_one_line_and_other_errors_are_their_own(tmp_path: Path) -> None:
    full = pytest.raises(UserError, match="cannot write /dev/full: No space left")
    with full, open_save(Path("/dev/full")) as stream:
        stream.write(b"capture")
    with pytest.raises(ConnectionRefusedError), open_save(tmp_path / "capture.pcap"):
        raise ConnectionRefusedError


def test_a_device_keeps_its_mode() -> None:
    before = mode_of(Path(os.devnull))
    open_private(Path(os.devnull)).close()
    assert mode_of(Path(os.devnull)) == before


def planted_link(path: Path) -> None:
    path.symlink_to(path.with_name("victim"))
    os.lchown(path, 1, 1)


def planted_file(path: Path) -> None:
    path.touch()
    os.chown(path, 1, 1)


def planted_pipe(path: Path) -> None:
    os.mkfifo(path)
    os.chown(path, 1, 1)


def planted_hard_link(path: Path) -> None:
    path.hardlink_to(path.with_name("victim"))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user, which needs root")
@pytest.mark.parametrize("plant", [planted_link, planted_file, planted_pipe, planted_hard_link])
def test_nothing_is_written_to_what_another_user_put_there(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    plant(tmp_path / "capture.pcap")
    reader = os.open(tmp_path / "capture.pcap", os.O_RDONLY | os.O_NONBLOCK)
    refused = pytest.raises(UserError, match=r"another user put it there|hard link")
    with refused, open_save(tmp_path / "capture.pcap"):
        pass
    os.close(reader)
    assert victim.read_text() == "precious"


def test_links_of_ones_own_are_followed(tmp_path: Path) -> None:
    """As /dev/stdout is one, and what a shell names for a pipe."""
    (tmp_path / "link").symlink_to(tmp_path / "capture.pcap")
    with open_private(tmp_path / "link") as stream:
        stream.write(b"new")
    assert (mode_of(tmp_path / "capture.pcap"), (tmp_path / "capture.pcap").read_bytes()) == (0o600, b"new")
    ends = os.pipe()
    with open_private(Path(f"/dev/fd/{ends[1]}")) as stream:
        stream.write(b"through")
    assert os.read(ends[0], 100) == b"through"
    for end in ends:
        os.close(end)


@pytest.fixture(autouse=True)
def keys_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIPWATCH_KEY", KEY)
    monkeypatch.setenv("SHORT_KEY", "short")


def keyed(**what: str) -> Configuration:
    suppressions = [Suppression(RULE, "known", date(2999, 1, 1), **what)] if what else []
    return Configuration(identities="keyed-hash", identities_key="env:KIPWATCH_KEY", suppress=suppressions)


def test_by_default_identities_are_plain() -> None:
    assert pseudonyms_of(Configuration()) is None


def test_a_key_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    found = [
        pseudonyms_of(Configuration(identities="keyed-hash", identities_key=each))
        for each in ("env:KIPWATCH_KEY", f"file:{file}")
    ]
    assert [each and each.text("orders") for each in found] == [Pseudonyms(KEY.encode()).text("orders")] * 2


@pytest.mark.parametrize(
    ("identities", "key", "line"),
    [
        ("keyed-hash", "", 'keyed-hash needs a key; write "env:NAME" or "file:PATH"'),
        ("keyed-hash", KEY, 'keyed-hash needs a key; write "env:NAME" or "file:PATH"'),
        ("keyed-hash", "env:ABSENT", "the environment variable ABSENT is not set"),
        ("keyed-hash", "file:/absent", "cannot read /absent: No such file or directory"),
        ("keyed-hash", "env:SHORT_KEY", "the key has less than 16 bytes; `openssl rand -hex 32` makes one"),
        ("plain", "env:KIPWATCH_KEY", 'no effect without identities = "keyed-hash"'),
    ],
)
def test_an_unusable_key_is_one_line(identities: str, key: str, line: str) -> None:
    with pytest.raises(UserError) as refused:
        Decisions(Configuration(identities=identities, identities_key=key))  # type: ignore[arg-type]
    message = str(refused.value)
    assert message.startswith("identities_key") and line in message and KEY not in message


@pytest.mark.parametrize(
    "what",
    [{"client_id": "app"}, {"client": "10.0.0.1"}, {"client": "10.0.0.1:40000", "client_id": "app"}],
    ids=str,
)
def test_a_suppression_names_its_client_plainly(what: dict[str, str], tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "violating.pcap", violating())
    found = examine(capture, default_schemas(), terms=Decisions(keyed(**what)).terms).findings
    (finding,) = (each for each in found if each.rule == RULE)
    assert finding.suppressed == Suppressed("known", "2999-01-01")
    assert "10.0.0.1" not in finding.client and finding.client_id != "app"


@pytest.mark.parametrize("what", [{"client_id": "another"}, {"client": "10.0.0.9"}], ids=str)
def test_a_suppression_of_another_client_covers_nothing(what: dict[str, str], tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "violating.pcap", violating())
    found = examine(capture, default_schemas(), terms=Decisions(keyed(**what)).terms).findings
    assert [each.suppressed for each in found if each.rule == RULE and each.suppressed] == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [({"client_id": "orders-*"}, "'orders-*'"), ({"client": "10.0.0.0/8"}, "'10.0.0.0/8'")],
)
def test_what_covers_several_clients_is_refused(what: dict[str, str], pattern: str) -> None:
    with pytest.raises(UserError, match="must name one client in full") as refused:
        Decisions(keyed(**what))
    assert pattern in str(refused.value)
