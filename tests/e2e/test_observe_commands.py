"""`--observe` on the command line: the printed addresses respond until the command ends."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.road import Child
from tests.e2e.pages import free_pages
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(300)]

PLAYED, ALERTED, STARTED = 180.0, 90.0, 120.0
PLANTED = "kip1313/instance-id-changed"


def fetched(address: str, path: str) -> Any:
    """The JSON at another path of a server whose page was printed."""
    with urllib.request.urlopen(f"http://{urlsplit(address).netloc}{path}", timeout=10) as response:
        return json.load(response)


def opened(address: str) -> int:
    with urllib.request.urlopen(address, timeout=10) as response:
        status: int = response.status
        return status


def test_a_demo_keeps_running_and_its_offences_arrive_as_alerts(tmp_path: Path) -> None:
    application, feeder = free_pages(2)
    command = ["demo", "--observe", "--recording", str(tmp_path / "demo.pcap")]
    command += ["--metrics-address", application, "--feeder-metrics-address", feeder]
    with Child(command, tmp_path / "demo.log") as demo:
        demo.wait_for("still running", PLAYED)
        started, _, _ = demo.log.read_text().partition("read the findings")
        pages = re.findall(r"http://\S+", started)
        assert [opened(page) for page in pages] == [200] * 5
        *_, prometheus, alertmanager = pages
        assert health(fetched(prometheus, "/api/v1/targets")) == ["up", "up"]
        until(lambda: PLANTED in rules_of(fetched(alertmanager, "/api/v2/alerts")), ALERTED)
        firing = {alert["labels"]["alertname"] for alert in fetched(alertmanager, "/api/v2/alerts")}
        assert {name for name in firing if name.startswith("Kipwatch")} == {"KipwatchWatchdog"}
    assert "interrupted: all processes are ended" in demo.log.read_text()
    for page in pages:
        with pytest.raises(OSError, match="refused"):
            opened(page)


def health(targets: Any) -> list[str]:
    """Whether Prometheus reaches its targets."""
    return [target["health"] for target in targets["data"]["activeTargets"]]


def rules_of(alerts: list[dict[str, Any]]) -> set[str]:
    return {alert["labels"].get("rule", "") for alert in alerts}


def test_a_query_logs_where_it_is_observed(tmp_path: Path) -> None:
    (application,) = free_pages(1)
    with EmbeddedBroker() as broker:
        command = ["run", "--observe", "--bootstrap", broker.internal, "--metrics-address", application]
        command += ["--checkpoint", str(tmp_path / "checkpoint"), "--buckets", "4"]
        with Child(command, tmp_path / "run.log") as query:
            query.wait_for('"query": "started"', STARTED)
            lines = [line for line in query.log.read_text().splitlines() if line.startswith('{"query": ')]
            loading, event, starting, *_ = map(json.loads, lines)
            assert [each["query"] for each in (loading, event, starting)] == [
                "loading",
                "observed",
                "starting-spark",
            ]
            assert opened(event["prometheus"]) == opened(event["alertmanager"]) == 200
            until(lambda: "up" in health(fetched(event["prometheus"], "/api/v1/targets")))
    with pytest.raises(OSError, match="refused"):
        opened(event["prometheus"])
