"""Metrics pages: at addresses that nobody uses, and the probes of the application's page."""

from __future__ import annotations

import urllib.error
import urllib.request

from streaming.broker.ports import HOST, free_ports
from streaming.settings.configuration import Configuration


def free_pages(count: int) -> list[str]:
    """Return addresses of the form host:port for this many metrics pages."""
    return [f"{HOST}:{port}" for port in free_ports(count)]


def on_free_pages() -> Configuration:
    """Return the default configuration with the pages of query and feeder at free addresses."""
    application, feeder = free_pages(2)
    return Configuration(metrics_address=application, feeder_metrics_address=feeder)


def passes(address: str, probe: str) -> bool:
    """Whether a probe says yes (200) rather than no (503)."""
    try:
        with urllib.request.urlopen(f"http://{address}/{probe}", timeout=10):
            return True
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return False
