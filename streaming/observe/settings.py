"""The configuration of Prometheus and Alertmanager for `--observe`. Both read JSON as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streaming.settings.address import address_text, host_and_port

RULES = Path(__file__).parents[2] / "dashboards/generated/alerts.yml"
INTERVAL = "5s"
"""Between two scrapes, and between two evaluations of the rules: short, as somebody is watching."""
LOOPBACK = "127.0.0.1"
WILDCARDS = ("0.0.0.0", "::")


def prometheus_settings(targets: dict[str, str], alertmanager: str, rules: Path = RULES) -> dict[str, Any]:
    """Scrape `targets` (job to host:port) and send alerts to `alertmanager` (host:port)."""
    return {
        "global": {"scrape_interval": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [reachable(address)]}]}
            for job, address in targets.items()
        ],
    }


def alertmanager_settings() -> dict[str, Any]:
    """Group alerts as the committed configuration does, and notify nobody."""
    return {
        "route": {"receiver": "nobody", "group_by": ["alertname", "job", "rule", "client_software_name"]},
        "receivers": [{"name": "nobody"}],
    }


def reachable(address: str) -> str:
    """Return the address to connect to: loopback for a server that listens on every interface."""
    host, port = host_and_port(address)
    return address_text(LOOPBACK if host in WILDCARDS else host, port)
