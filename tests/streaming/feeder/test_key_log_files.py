"""Key logs are read as they grow, appear, are rotated or truncated, and each trouble is told once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from decoders.tls.key_log import KeyLog
from streaming.feeder.key_log_files import FollowedKeyLogs, exposed_key_logs, read_key_logs
from streaming.user_error import UserError

Said = list[tuple[str, str, str]]


def line(number: int) -> str:
    return f"CLIENT_RANDOM {number:064x} {number:096x}\n"


def held(key_log: KeyLog, numbers: range) -> list[int]:
    return [number for number in numbers if key_log.secrets(number.to_bytes(32))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.keys"


@pytest.fixture
def said() -> Said:
    return []


@pytest.fixture
def logs(path: Path, said: Said) -> FollowedKeyLogs:
    return FollowedKeyLogs([path], lambda event, file, message: said.append((event, str(file), message)))


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.touch(mode=mode)
    with path.open("a") as stream:
        stream.write(text)


def test_all_key_logs_are_read_to_their_ends(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for number, each in enumerate(paths):
        write(each, line(2 * number) + line(2 * number + 1).rstrip())
    assert held(read_key_logs(paths), range(9)) == [0, 1, 2, 3]


def test_a_key_log_that_cannot_be_read_is_one_line(path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the key log .*broker.keys: No such file"):
        read_key_logs([path])
    with pytest.raises(UserError, match="Is a directory"):
        read_key_logs([path.parent])


def test_a_key_log_that_everyone_can_read_is_named(tmp_path: Path) -> None:
    write(tmp_path / "open", line(1), 0o644)
    write(tmp_path / "shared", line(1), 0o640)
    (told,) = exposed_key_logs([tmp_path / "open", tmp_path / "shared", tmp_path / "missing"])
    assert told.endswith(f"chmod o= {tmp_path}/open")


def test_what_is_appended_is_read_at_the_next_poll(path: Path, logs: FollowedKeyLogs) -> None:
    for number in range(4):
        write(path, line(number)[:50])
        logs.poll()
        write(path, line(number)[50:])
        logs.poll()
        assert held(logs.key_log, range(9)) == [*range(number + 1)]
    assert logs.key_log.broken_lines == 0


def test_a_key_log_is_awaited_and_each_trouble_is_said_once(
    path: Path, logs: FollowedKeyLogs, said: Said
) -> None:
    logs.poll()
    logs.poll()
    assert [event for event, _, _ in said] == ["key-log-missing"]
    write(path, line(1), 0o644)
    logs.poll()
    logs.poll()
    assert [event for event, _, _ in said] == ["key-log-missing", "key-log-read", "key-log-exposed"]
    assert held(logs.key_log, range(3)) == [1]


def test_a_key_log_that_is_replaced_is_read_to_its_end_and_then_anew(
    path: Path, logs: FollowedKeyLogs
) -> None:
    write(path, line(1))
    logs.poll()
    write(path, line(2))
    path.rename(path.with_suffix(".1"))
    write(path, line(3))
    logs.poll()
    assert held(logs.key_log, range(9)) == [1, 2, 3]


def test_between_a_rotation_and_the_next_file_the_old_one_is_read(path: Path, logs: FollowedKeyLogs) -> None:
    write(path, line(1))
    logs.poll()
    old = path.with_suffix(".1")
    path.rename(old)
    logs.poll()
    write(old, line(2))
    logs.poll()
    write(path, line(3))
    logs.poll()
    assert held(logs.key_log, range(9)) == [1, 2, 3]


def test_a_key_log_that_is_truncated_is_read_anew(path: Path, logs: FollowedKeyLogs) -> None:
    write(path, line(1) + line(2) + line(3)[:20])
    logs.poll()
    os.truncate(path, 0)
    write(path, line(4))
    logs.poll()
    assert held(logs.key_log, range(9)) == [1, 2, 4]


@pytest.mark.parametrize("regrown", [3, 5, 40])
def test_a_key_log_that_is_truncated_and_regrown_between_two_polls_is_read_anew(
    path: Path, logs: FollowedKeyLogs, said: Said, regrown: int
) -> None:
    heading = "# secrets of TLS\n"
    write(path, heading + line(1) + line(2) + line(3))
    logs.poll()
    os.truncate(path, 0)
    write(path, heading + "".join(line(number) for number in range(10, 10 + regrown)))
    logs.poll()
    logs.poll()
    assert held(logs.key_log, range(60)) == [1, 2, 3, *range(10, 10 + regrown)]
    assert logs.key_log.broken_lines == 0
    assert [event for event, _, _ in said] == ["key-log-read", "key-log-truncated"]


def test_a_writer_that_keeps_its_place_in_a_truncated_key_log_is_read(
    path: Path, logs: FollowedKeyLogs, said: Said
) -> None:
    """A writer without O_APPEND leaves a hole of zeros in place of the old lines."""
    with path.open("w") as writer:
        for number in range(4):
            writer.write(line(number))
            writer.flush()
            logs.poll()
            os.truncate(path, 0)
    assert held(logs.key_log, range(9)) == [0, 1, 2, 3]
    assert [event for event, _, _ in said if event != "key-log-exposed"][1:] == ["key-log-truncated"] * 3


def test_what_is_no_file_is_said_and_not_read(path: Path, logs: FollowedKeyLogs, said: Said) -> None:
    os.mkfifo(path)
    logs.poll()
    logs.poll()
    ((event, _, message),) = said
    assert event == "key-log-unreadable"
    assert "no regular file" in message


def test_no_event_shows_a_secret(path: Path, logs: FollowedKeyLogs, said: Said) -> None:
    write(path, line(0xABCDEF) + "CLIENT_RANDOM abcdef abcdef\n", 0o644)
    logs.poll()
    path.unlink()
    logs.poll()
    assert len(said) == 3
    assert "abcdef" not in str(said)
