"""Policies: suites that users write, in Great Expectations' own form, on the tables of the archive.

A policy is a file, YAML or JSON, as Great Expectations writes a suite. `meta.table` names the table. Each
expectation has in its `meta` an `id`, what it `says`, and the `action` to take:

    name: fleet
    meta: {table: usage}
    expectations:
      - type: expect_column_values_to_not_be_null
        kwargs: {column: client_software_name}
        severity: warning
        meta: {id: software-named, says: Every service names its software., action: Upgrade its client.}

Expectations judge rows one by one. Those that compare rows, or look at the whole table, are refused: an
archive of months is validated in parts, and the query validates samples. Only a compound key may be unique.

`expect_column_versions_to_be_at_least` is an expectation of our own: `2.3` is below `2.16.1`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import msgspec
import pandas
from great_expectations.core import ExpectationSuite
from great_expectations.exceptions import GreatExpectationsError
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import (
    ColumnMapExpectation,
    ColumnPairMapExpectation,
    MulticolumnMapExpectation,
)
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.expectations.metrics import ColumnMapMetricProvider, column_condition_partial
from great_expectations.expectations.registry import get_expectation_impl
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from expectations.suites.suite import WARNING, Expectation, Suite

_OF_ROWS: Final = (ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation)
_COMPARING: Final = frozenset(
    {
        "expect_column_values_to_be_unique",
        "expect_column_values_to_be_increasing",
        "expect_column_values_to_be_decreasing",
        "expect_column_value_z_scores_to_be_less_than",
        "expect_column_values_to_not_be_outliers",
    }
)
"""Expectations about single values that compare them with those of other rows."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")


_Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A line of text, since it becomes the label of a metric."""


class _About(msgspec.Struct, forbid_unknown_fields=True):
    id: _Line
    says: _Line
    action: str = "Talk to the owner of the client."


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    table: str


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    meta: _About
    kwargs: dict[str, Any] = {}
    severity: str = WARNING


class _Policy(msgspec.Struct, forbid_unknown_fields=True):
    name: _Line
    meta: _Table
    expectations: list[_Written]


def read_policies(path: Path, columns: Mapping[str, Collection[str]]) -> list[Suite]:
    """Read the policies of a file, or of all files of a folder, in the order of their names.

    `columns` are those of each table. Raises ValueError, in one line that names the file, for what cannot be
    read, for an unknown table or column, and for an expectation that does not judge single rows.
    """
    paths = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not paths:
        raise ValueError(f"{path} holds no policy (*.yaml, *.json)")
    suites = [_suite(each, columns) for each in paths]
    names = [suite.name for suite in suites]
    if repeated := next((name for name in names if names.count(name) > 1 or name in columns), None):
        raise ValueError(f"{path}: the name {repeated} is taken; a policy has one of its own")
    return suites


def _suite(path: Path, columns: Mapping[str, Collection[str]]) -> Suite:
    try:
        written = msgspec.convert(YAML(typ="safe").load(path.read_text()), _Policy)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, YAMLError, msgspec.ValidationError) as error:
        raise ValueError(f"{path}: {_one_line(error)}") from error
    table = written.meta.table
    if table not in columns:
        raise ValueError(f"{path}: there is no table {table}; choose one of {', '.join(columns)}")
    found = []
    for each in written.expectations:
        try:
            found.append(_expectation(each, columns[table]))
        except (ValueError, TypeError, GreatExpectationsError) as error:
            raise ValueError(f"{path}: {each.meta.id}: {_one_line(error)}") from error
    identifiers = [each.id for each in found]
    if len(set(identifiers)) < len(identifiers):
        raise ValueError(f"{path}: two expectations have one id")
    return Suite(table, tuple(found), written.name)


def _expectation(written: _Written, columns: Collection[str]) -> Expectation:
    kind = get_expectation_impl(written.type)
    if not issubclass(kind, _OF_ROWS) or written.type in _COMPARING:
        raise ValueError(f"{written.type} does not judge rows one by one")
    named = [name for key, name in written.kwargs.items() if key in ("column", "column_A", "column_B")]
    for name in chain(named, written.kwargs.get("column_list", ())):
        if name not in columns:
            raise ValueError(f"there is no column {name}; the table has {', '.join(columns)}")
    about = written.meta
    check = ExpectationConfiguration(
        type=written.type, kwargs=written.kwargs, meta={"id": about.id}, severity=written.severity
    ).to_domain_obj()
    # A suite checks what the expectation alone does not.
    ExpectationSuite("policy", expectations=[check])
    return Expectation(about.id, written.severity, about.says, about.action, check)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


_METRIC: Final = "column_values.version_at_least"


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, by which versions are ordered; () if it has none."""
    leading = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in leading[1].split(".")) if leading else ()


class VersionAtLeast(ColumnMapMetricProvider):  # type: ignore[misc]
    """Whether each value of a column is a version of at least `least`; a text without numbers is none."""

    condition_metric_name = _METRIC
    condition_value_keys = ("least",)

    @column_condition_partial(engine=PandasExecutionEngine)  # type: ignore[untyped-decorator]
    def _pandas(cls, column: pandas.Series[str], least: str, **_kwargs: Any) -> pandas.Series[bool]:  # noqa: N805
        return column.map(lambda value: version_key(str(value)) >= version_key(least)).astype(bool)


class ExpectColumnVersionsToBeAtLeast(ColumnMapExpectation):  # type: ignore[misc]
    """Expect that the versions in a column are at least `least`. Nulls are left out."""

    least: str
    map_metric: ClassVar[str] = _METRIC
    success_keys: ClassVar[tuple[str, ...]] = ("least", "mostly")
