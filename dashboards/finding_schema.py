"""The JSON Schema of findings, made from the structure that is published."""

from __future__ import annotations

import inspect
import json
from typing import Any, Final

import msgspec

from expectations.judging.finding import Finding

FINDING_SCHEMA: Final = "docs/finding.schema.json"


def finding_schema() -> str:
    """Return the schema of one document of the findings topic, or line of `check --jsonl`, as JSON.

    Later versions may add fields, so further ones are allowed.
    """
    schema = msgspec.json.schema(Finding)
    for struct in schema["$defs"].values():
        _tidy(struct)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def _tidy(struct: dict[str, Any]) -> None:
    if "description" in struct:
        struct["description"] = inspect.cleandoc(struct["description"])
