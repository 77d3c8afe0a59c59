"""What must stay confidential: secrets, captured payloads, identities of clients, the metrics.

The configuration holds no secret. It names where one is, as `env:NAME` or `file:PATH`. Captures hold what
clients send, even passwords of SASL/PLAIN, so captures and key logs are for their owner only. With
`identities = "keyed-hash"` clients are named by pseudonyms, whose key is such a secret. The pages
with the metrics can be served by TLS.
"""

from __future__ import annotations

import contextlib
import errno
import os
import ssl
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from expectations.conversation.pseudonyms import SHORTEST_KEY, Pseudonyms
from streaming.settings.configuration import Configuration, MetricsTls
from streaming.user_error import UserError

ENVIRONMENT: Final = "env:"
FILE: Final = "file:"
OWNER_ONLY: Final = 0o600
_OF_DISKS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a disk that is full or fails."""


def is_reference(value: object) -> bool:
    """Whether a setting names the place of its value."""
    return isinstance(value, str) and value.startswith((ENVIRONMENT, FILE))


def looked_up(setting: str, reference: str) -> str:
    """Return the value that a reference names. Raises UserError, which names `setting`, if there is none."""
    if reference.startswith(ENVIRONMENT):
        variable = reference.removeprefix(ENVIRONMENT)
        if variable not in os.environ:
            raise UserError(f"{setting}: the environment variable {variable} is not set")
        return os.environ[variable]
    return read_text(setting, reference.removeprefix(FILE)).strip()


def read_text(setting: str, path: str) -> str:
    """Return a file's text. Raises UserError if it cannot be read."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{setting}: cannot read {path}: {reason}") from error


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing, empty and for its owner only. Raises OSError.

    An existing file gets that mode, too. A pipe or a device keeps its own. What another user put there is
    refused, links included: that user may be reading it, or want another file to be overwritten.
    """
    is_link = path.is_symlink()
    if is_link:
        _refuse_of_others(path.lstat())
    followed = 0 if is_link else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | followed, OWNER_ONLY)
    stream = os.fdopen(descriptor, "wb")
    try:
        found = os.fstat(descriptor)
        if not is_link:
            _refuse_of_others(found)
        if stat.S_ISREG(found.st_mode):
            os.fchmod(descriptor, OWNER_ONLY)
            os.ftruncate(descriptor, 0)
    except OSError:
        stream.close()
        raise
    return stream


@contextlib.contextmanager
def open_save(path: Path) -> Iterator[BinaryIO]:
    """Open the pcap file for captured packets, for its owner only.

    Raises UserError if it cannot be opened, or if a disk is full or fails within the block.
    """
    try:
        stream = open_private(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    try:
        with stream:
            yield stream
    except OSError as error:
        if error.errno not in _OF_DISKS:
            raise
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _refuse_of_others(found: os.stat_result) -> None:
    """Raise PermissionError for a file that is not this user's or root's, or that has another hard link."""
    if not stat.S_ISCHR(found.st_mode) and found.st_uid not in {0, os.geteuid()}:
        raise PermissionError(errno.EPERM, "another user put it there; remove it, or name another file")
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise PermissionError(errno.EPERM, "it is a hard link; remove it, or name another file")


def pseudonyms_of(configuration: Configuration) -> Pseudonyms | None:
    """Return the configured pseudonyms, None for plain identities. Raises UserError without a usable key."""
    reference = configuration.identities_key
    if configuration.identities == "plain":
        if reference:
            raise UserError('identities_key has no effect without identities = "keyed-hash"')
        return None
    if not is_reference(reference):
        raise UserError('identities_key: keyed-hash needs a key; write "env:NAME" or "file:PATH"')
    try:
        return Pseudonyms(looked_up("identities_key", reference).encode())
    except ValueError:
        raise UserError(
            f"identities_key: the key has less than {SHORTEST_KEY} bytes; `openssl rand -hex 32` makes one"
        ) from None


class ServerCertificate:
    """Makes the TLS context of a server, and makes it anew when a file changes.

    A renewed certificate needs no restart. While new files cannot be read, the old context stays in use.
    Raises UserError if the first files cannot be used.
    """

    def __init__(self, files: MetricsTls) -> None:
        self._files = files
        self._read_at = self._changed_at()
        try:
            self._context = self._load()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"[metrics_tls] cannot be used: {reason}; see docs/run.md") from error

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        changed_at = self._changed_at()
        if changed_at != self._read_at:
            self._read_at = changed_at
            with contextlib.suppress(OSError, ValueError):
                self._context = self._load()
        return self._context

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key or None)
        if files.client_ca:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _changed_at(self) -> list[int]:
        found = []
        for name in filter(None, (self._files.certificate, self._files.key, self._files.client_ca)):
            with contextlib.suppress(OSError):
                found.append(Path(name).stat().st_mtime_ns)
        return found


def tls_context(files: MetricsTls) -> Callable[[], ssl.SSLContext] | None:
    """Return the maker of the context for each connection, None if pages are served without TLS.

    Raises UserError if the files cannot be used.
    """
    if files == MetricsTls():
        return None
    if not files.certificate:
        raise UserError("[metrics_tls] needs `certificate`, the server's certificate in PEM form")
    return ServerCertificate(files).context
