"""The probes of the application's page: /healthz and /readyz."""

from __future__ import annotations

import urllib.error
import urllib.request


def passes(address: str, probe: str) -> bool:
    """Whether a probe says yes (200) rather than no (503)."""
    try:
        with urllib.request.urlopen(f"http://{address}/{probe}", timeout=10):
            return True
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return False
