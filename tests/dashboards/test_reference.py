"""The pages of metrics and the schema of findings.

Each metric is listed once, where it is served, with the alerts that read it. The schema holds for what
kipwatch publishes, and refuses what it would not.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from dashboards.build import rule_groups
from dashboards.links import Addresses
from dashboards.reference import finding_schema, metrics_reference
from decoders.schema.registry import default_schemas
from streaming.check.examination import examine
from streaming.commands.main import main
from streaming.feeder.feeder import FeederMetrics
from streaming.metrics.definitions import BUILD_INFO
from streaming.query.application_metrics import ApplicationMetrics
from tests.captures import planted, real_clients

PARTS = dict(
    re.findall(
        r"^## (Of .*?)\n(.*?)(?=^## |\Z)",
        metrics_reference(rule_groups(Addresses())),
        re.DOTALL | re.MULTILINE,
    )
)
ENTRIES = {
    title: dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", part, re.S | re.M))
    for title, part in PARTS.items()
}


def names(registry: CollectorRegistry) -> set[str]:
    """Return the names of a page, without the metric of both pages."""
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()
    }
    return served - {BUILD_INFO.name}


@pytest.mark.parametrize(
    ("part", "registry"),
    [
        ("Of the query", ApplicationMetrics([], version="", kafka="", label_limit=1).registry),
        ("Of the feeder", FeederMetrics(version="", kafka="").registry),
    ],
    ids=["query", "feeder"],
)
def test_each_metric_is_listed_with_what_serves_it(part: str, registry: CollectorRegistry) -> None:
    listed, served = set(ENTRIES[part]), names(registry)
    assert listed == served, (
        f"{part}: {sorted(listed - served)} are listed and not served, {sorted(served - listed)} the other "
        "way round; a metric's name says what serves it: OF_FEEDER in streaming/metrics/definitions.py"
    )


def test_an_entry_names_labels_and_alerts_also_those_that_read_a_recorded_series() -> None:
    entries = ENTRIES["Of the query"]
    assert "*counter; labels `rule`, `verdict`, `listener`*" in entries["kipwatch_rule_checks_total"]
    assert entries["kipwatch_findings_total"].count("[KafkaClientProtocolViolation](") == 1
    assert "[KipwatchDetectionDelayBudgetBurn](" in entries["kipwatch_detection_delay_seconds"]
    assert "Alerts" not in entries["kipwatch_state_bytes"]


@pytest.fixture(scope="module")
def validator() -> Any:
    import jsonschema  # noqa: PLC0415  # takes two seconds to load, in every worker that collects this file

    return jsonschema.Draft202012Validator(json.loads(finding_schema()))


def findings(capture: Path) -> list[dict[str, Any]]:
    found = examine(capture, default_schemas()).findings
    documents: list[dict[str, Any]] = json.loads(msgspec.json.encode(found))
    return documents


@pytest.mark.parametrize("capture", [planted.CAPTURE, real_clients.CAPTURE], ids=lambda path: path.stem)
def test_every_finding_of_the_captures_is_valid(validator: Any, capture: Path) -> None:
    for document in findings(capture):
        validator.validate(document)


def test_a_line_of_check_is_valid(validator: Any, capfd: pytest.CaptureFixture[str]) -> None:
    main(["check", "--jsonl", str(planted.CAPTURE)])
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) > 40
    for line in lines:
        validator.validate(json.loads(line))


@pytest.mark.parametrize(("field", "value"), [("occurrences", "3"), ("evidence", None), ("rule", 1)])
def test_a_field_of_another_type_is_refused(validator: Any, field: str, value: object) -> None:
    document = findings(planted.CAPTURE)[0] | {field: value}
    assert not validator.is_valid(document)


def test_a_missing_field_is_refused_and_a_further_one_allowed(validator: Any) -> None:
    document = findings(planted.CAPTURE)[0]
    assert validator.is_valid(document | {"added_later": 1})
    del document["section"]
    assert not validator.is_valid(document)
