"""The examples for notifications: Alertmanager takes the fragments, connectors read the right topic."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.settings.configuration import Configuration
from tests.deploy.alertmanager import CONFIGURATION
from tests.deploy.test_alertmanager import amtool
from tests.repository.tree import ROOT

BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/notifications.md").read_text(), flags=re.DOTALL)
CONNECTORS = sorted((ROOT / "deploy/connect").glob("*.json"))


def test_alertmanager_takes_every_receiver_in_place_of_the_committed_ones(tmp_path: Path) -> None:
    shown = [receiver for block in BLOCKS for receiver in yaml.safe_load(block)["receivers"]]
    names = {receiver["name"] for receiver in shown}
    assert names == {"chat", "mail", "ticket", "watchdog"}
    configuration: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text())
    others = [receiver for receiver in configuration["receivers"] if receiver["name"] not in names]
    configuration["receivers"] = [*others, *shown]
    configuration["templates"] = [str(CONFIGURATION.parent / "templates/*.tmpl")]
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(configuration))
    assert "SUCCESS" in amtool("check-config", file)


@pytest.mark.parametrize("path", CONNECTORS, ids=lambda path: path.stem)
def test_a_connector_reads_the_topic_of_findings(path: Path) -> None:
    connector = json.loads(path.read_text())["config"]
    assert connector["topics"] == Configuration().findings_topic
