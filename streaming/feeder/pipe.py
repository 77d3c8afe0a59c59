"""Pipes and standard input, whose bytes come once and are kept for those who read a capture several times.

A check looks at the first packet of each file for their order, then reads all, and once more for evidence. A
pipe is therefore read into a temporary file without a name, as far as anybody has got: the first reader gets
bytes as they arrive, later ones get the kept bytes first. The file is readable by this user alone and gone
with the process.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streaming.user_error import UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT: Final = Path("-")
_DESCRIPTOR: Final = 0
_PIECE: Final = 1 << 18


def is_pipe(path: Path) -> bool:
    """Whether a path is `-`, or names a pipe, a socket or a device: something that can be read only once."""
    return path == STANDARD_INPUT or (path.exists() and not path.is_file() and not path.is_dir())


def shown(path: Path) -> str:
    """Return the name of a source in messages."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def open_pipe(path: Path) -> io.BufferedReader:
    """Read a pipe from its first byte, also if it was read before. Raises UserError and OSError."""
    return io.BufferedReader(_View(_kept(path), shown(path)), _PIECE)


def pipe_descriptor(path: Path) -> int:
    """Open a pipe, which may wait for its writer. Raises UserError."""
    if path == STANDARD_INPUT:
        return _DESCRIPTOR
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


class _KeptPipe:
    """The bytes of a pipe that have been read."""

    def __init__(self, path: Path) -> None:
        self._descriptor = pipe_descriptor(path)
        self._kept = tempfile.TemporaryFile(prefix="kipwatch-")  # noqa: SIM115  # as long as the process
        self._size = 0

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from an offset, at least one unless the pipe has ended there. Waits for them."""
        if offset < self._size:
            return os.pread(self._kept.fileno(), size, offset)
        piece = os.read(self._descriptor, size)
        if os.pwrite(self._kept.fileno(), piece, offset) < len(piece):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(piece)
        return piece


@functools.cache
def _kept(path: Path) -> _KeptPipe:
    return _KeptPipe(path)


class _View(io.RawIOBase):
    """One reader of a pipe."""

    def __init__(self, pipe: _KeptPipe, name: str) -> None:
        self._pipe, self._name = pipe, name
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read the next bytes. Returns 0 at the end. Raises UserError if they cannot be read or kept."""
        target = memoryview(buffer).cast("B")
        try:
            piece = self._pipe.read_at(self._offset, len(target))
        except OSError as error:
            folder = tempfile.gettempdir()
            raise UserError(f"cannot read {self._name} and keep it in {folder}: {error.strerror}") from error
        target[: len(piece)] = piece
        self._offset += len(piece)
        return len(piece)
