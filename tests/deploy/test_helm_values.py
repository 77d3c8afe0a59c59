"""The files that users of Kubernetes begin with: kipwatch itself takes their configurations and flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml

from streaming.commands import feed, run
from streaming.settings.configuration import configure
from tests.repository.tree import ROOT

HELM = ROOT / "deploy/helm"
VALUES = sorted((HELM / "values").glob("*.yaml"))
PATCH: dict[str, Any] = yaml.safe_load((HELM / "patches/statefulset.yaml").read_text())


@pytest.mark.parametrize("path", [HELM / "kipwatch/values.yaml", *VALUES], ids=lambda path: path.stem)
def test_query_and_feeder_take_the_configuration(path: Path, tmp_path: Path) -> None:
    """And the query does not read from a port that the feeders watch."""
    file = tmp_path / "kipwatch.toml"
    file.write_text(yaml.safe_load(path.read_text())["configuration"])
    for command in (run, feed):
        parser = argparse.ArgumentParser(exit_on_error=False)
        command.add_arguments(parser)
        configuration = configure(parser.parse_args(["--config", str(file)]))
    run.refuse_watched_bootstrap(configuration)


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_the_network_policy_lets_the_query_reach_its_kafka(path: Path) -> None:
    values = yaml.safe_load(path.read_text())
    allowed = values.get("networkPolicy", {}).get("kafkaPorts", [19092])
    assert any(f':{port}"' in values["configuration"] for port in allowed)


def test_the_patched_feeder_takes_its_flags() -> None:
    (container,) = PATCH["spec"]["template"]["spec"]["containers"]
    command, config, *flags = container["args"]
    parser = argparse.ArgumentParser(exit_on_error=False)
    feed.add_arguments(parser)
    assert command == "feed"
    assert config == "--config=/etc/kipwatch/kipwatch.toml"
    assert configure(parser.parse_args(flags)).feeder_metrics_address == "0.0.0.0:9107"


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((HELM / "kipwatch/Chart.yaml").read_text())
    pyproject = (HELM.parents[1] / "pyproject.toml").read_text()
    assert f'\nversion = "{chart["appVersion"]}"\n' in pyproject
