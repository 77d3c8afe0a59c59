"""Key log files: read once for a capture, or followed while they grow and are rotated.

A followed file is closed or open. Each `poll` makes the transitions that apply and calls `say` with their
events; an event of trouble is repeated only after another event.

    state    at a poll                                              next     event
    closed   there is no file                                       closed   key-log-missing
             it cannot be opened, or is no regular file             closed   key-log-unreadable
             there is a regular file: it is read from its start     open     key-log-read, key-log-exposed
    open     it has grown: the new lines are read                   open
             the bytes before the place of reading have changed:    open     key-log-truncated
             it is read from its start
             its path is gone: it is read on                        open     key-log-missing
             its path leads to another file: it is read to its      as from  as from
             end and closed                                         closed   closed
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from decoders.tls.key_log import KeyLog
from streaming.user_error import UserError

CHUNK: Final = 1 << 20
"""Bytes to read at once."""
TAIL: Final = 256
"""How many bytes before the place of reading are remembered. If they change, the file was truncated."""
OnEvent = Callable[[str, Path, str], None]
"""Takes the name of an event, the file, and a line that tells what happened and what to do."""


def read_key_logs(paths: Sequence[Path]) -> KeyLog:
    """Read key logs as they are now, to their ends. Raises UserError if one cannot be read."""
    key_log = KeyLog(is_expected=bool(paths))
    for path in paths:
        try:
            with path.open("rb") as stream:
                while text := stream.read(CHUNK):
                    key_log.add(text, str(path))
        except OSError as error:
            raise UserError(f"cannot read the key log {path}: {error.strerror}") from error
        key_log.end(str(path))
    return key_log


def exposed_key_logs(paths: Sequence[Path]) -> list[str]:
    """Return a warning for each key log that every user of this host can read."""
    return [_exposure(path) for path in paths if path.is_file() and _is_exposed(path.stat().st_mode)]


def _is_exposed(mode: int) -> bool:
    return bool(mode & stat.S_IROTH)


def _exposure(path: Path) -> str:
    return f"every user of this host can read {path}, and so decrypt what it has secrets of: chmod o= {path}"


class FollowedKeyLogs:
    """Follows key logs that JVMs and clients go on writing. `poll` adds new secrets to `key_log`.

    `key_log` may hold secrets already.
    """

    def __init__(self, paths: Sequence[Path], say: OnEvent, key_log: KeyLog | None = None) -> None:
        self.key_log = KeyLog(is_expected=bool(paths)) if key_log is None else key_log
        self._files = [_FollowedFile(path, self.key_log, say) for path in paths]

    def poll(self) -> None:
        """Read what was written since the last call."""
        for file in self._files:
            file.poll()

    def close(self) -> None:
        for file in self._files:
            file.close()


class _FollowedFile:
    """One followed file, and how far it has been read."""

    def __init__(self, path: Path, key_log: KeyLog, say: OnEvent) -> None:
        self._path, self._key_log, self._say = path, key_log, say
        self._descriptor: int | None = None
        self._position = 0
        self._tail = b""
        self._last_event = ""

    def poll(self) -> None:
        try:
            self._open_if_needed()
            self._read_new()
            if self._is_replaced():
                self._read_new()
                self.close()
                self._open_if_needed()
                self._read_new()
        except FileNotFoundError:
            self._report("key-log-missing", f"{self._path} does not exist: it is read when it does")
        except OSError as error:
            message = f"cannot read {self._path}: {error.strerror}; what it logs now is not decrypted"
            self._report("key-log-unreadable", message)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._key_log.end(str(self._path))

    def _open_if_needed(self) -> None:
        if self._descriptor is not None:
            return
        # Non-blocking, because opening a pipe without a writer would wait.
        self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._position, self._tail = 0, b""
        mode = os.fstat(self._descriptor).st_mode
        if not stat.S_ISREG(mode):
            self.close()
            raise OSError(errno.EINVAL, "it is no regular file")
        self._report("key-log-read", f"{self._path} is read")
        if _is_exposed(mode):
            self._say("key-log-exposed", self._path, _exposure(self._path))

    def _read_new(self) -> None:
        assert self._descriptor is not None
        if self._is_truncated():
            self._key_log.end(str(self._path))
            self._position, self._tail = 0, b""
            self._say("key-log-truncated", self._path, self._truncation())
        while text := os.pread(self._descriptor, CHUNK, self._position):
            self._position += len(text)
            self._tail = (self._tail + text)[-TAIL:]
            self._key_log.add(text, str(self._path))

    def _is_truncated(self) -> bool:
        """Whether the bytes before the place of reading have changed. Lines of secrets never repeat."""
        assert self._descriptor is not None
        size = len(self._tail)
        return os.pread(self._descriptor, size, self._position - size) != self._tail

    def _truncation(self) -> str:
        reason = "what was logged between the last look and that is lost"
        return f"{self._path} was truncated and is read anew; {reason}: rotate it by renaming it"

    def _is_replaced(self) -> bool:
        """Whether the path names another file than the one that is open."""
        assert self._descriptor is not None
        return not os.path.samestat(self._path.stat(), os.fstat(self._descriptor))

    def _report(self, event: str, message: str) -> None:
        if self._last_event != event or event == "key-log-read":
            self._last_event = event
            self._say(event, self._path, message)
