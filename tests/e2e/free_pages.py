"""Metrics pages at addresses that nobody uses."""

from __future__ import annotations

from streaming.broker.ports import HOST, free_ports
from streaming.settings.configuration import Configuration


def free_pages(count: int) -> list[str]:
    """Return addresses of the form host:port for this many metrics pages."""
    return [f"{HOST}:{port}" for port in free_ports(count)]


def on_free_pages() -> Configuration:
    """Return the default configuration with the pages of query and feeder at free addresses."""
    application, feeder = free_pages(2)
    return Configuration(metrics_address=application, feeder_metrics_address=feeder)
