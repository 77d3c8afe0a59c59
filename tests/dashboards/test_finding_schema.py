"""The schema of findings holds for what kipwatch publishes, and refuses what it would not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashboards.finding_schema import finding_schema
from decoders.schema.registry import default_schemas
from streaming.check.examination import examine
from streaming.commands.main import main
from tests.captures import planted, real_clients


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
