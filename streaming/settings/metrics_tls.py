"""TLS of the pages that kipwatch serves: the certificate, and who may read the metrics."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from streaming.user_error import UserError


class MetricsTls(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Files in PEM form. With `client_ca`, /metrics is for clients with a certificate of that authority.

    /healthz and /readyz ask for none: the probes of service managers have none.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class ServerCertificate:
    """Makes the TLS context of a server, and makes it anew when a file changes.

    So a renewed certificate needs no restart. While new files cannot be read, the old context stays in use.
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
