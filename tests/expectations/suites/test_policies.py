"""Policies of users: data that keeps and data that breaks each, whole, in chunks, and as DuckDB answers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pandas
import pytest

FOLDER = Path(__file__).parent / "policies"
WHEN = pandas.Timestamp("2026-04-01", tz="UTC")
ROWS: dict[str, dict[str, list[Any]]] = {
    "usage": {
        "client_software_name": ["librdkafka", "librdkafka", "sarama", None],
        "client_software_version": ["2.16.1", "2.3.0", "1.2", None],
        "client_id": ["orders-api", "orders-db", "stock-api", None],
        "fate": ["kept", "kept", "kept", "kept"],
        "minute": [WHEN] * 4,
    },
    "connections": {
        "client_software_name": ["librdkafka", "sarama", "x", None],
        "closed_at": [WHEN, WHEN, WHEN, None],
        "closing": ["fin", "rst", "fin", "fin"],
    },
    "groups": {
        "client_id": ["orders-api", "orders-db", "stock", "stock"],
        "protocol": ["consumer", "consumer", "classic", "share"],
    },
}
"""Rows that keep every policy."""
POLICIES: dict[str, tuple[str, str, Any, int, str]] = {
    "librdkafka-recent": (
        "usage",
        "client_software_version",
        "2.2.9",
        0,
        "client_software_name = 'librdkafka' and string_split(client_software_version, '.')::int[] < [2, 3]",
    ),
    "software-named": (
        "connections",
        "client_software_name",
        None,
        1,
        "closed_at is not null and client_software_name is null",
    ),
    "nothing-removed": ("usage", "fate", "deprecated", 2, "minute >= '2026-03-01' and fate <> 'kept'"),
    "orders-on-kip-848": (
        "groups",
        "protocol",
        "classic",
        1,
        "client_id like 'orders%' and protocol <> 'consumer'",
    ),
    "connections-end-well": ("connections", "closing", "rst", 2, "closing = 'rst'"),
    "client-ids": ("usage", "client_id", "Orders", 0, "not regexp_matches(client_id, '^[a-z]+-[a-z]+$')"),
}
"""By policy: its table, the column, value and row that break it, and the rows that break it in SQL."""
ALLOWED = {"connections-end-well": 1}
"""Rows that may break a policy which names a share."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def policies() -> ModuleType:
    """Loads Great Expectations where it is used."""
    return importlib.import_module("expectations.suites.policies")


@pytest.fixture(scope="module")
def suite() -> ModuleType:
    return importlib.import_module("expectations.suites.suite")


COLUMNS = {table: tuple(rows) for table, rows in ROWS.items()}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_kept_by_some_data_and_broken_by_other(
    policies: ModuleType, suite: ModuleType, name: str
) -> None:
    table, column, value, row, sql = POLICIES[name]
    (policy,) = (each for each in policies.read_policies(FOLDER, COLUMNS) if each.name == name)
    for is_broken in (False, True):
        rows = pandas.DataFrame(ROWS[table])
        if is_broken:
            rows.loc[row, column] = value
        result = suite.validate(policy, rows)
        chunks = [suite.validate_chunk(policy, rows.iloc[at : at + 2]) for at in (0, 2)]
        merged = suite.merged(policy, (outcome for chunk in chunks for outcome in chunk))
        assert (result.table, result.success, merged) == (name, not is_broken, result)
        (outcome,) = result.outcomes
        answer = duckdb.connect().execute(f"select count(*) from rows where {sql}").fetchone()
        assert answer == (outcome.unexpected_count,)
        assert outcome.unexpected_count == ALLOWED.get(name, 0) + is_broken
        assert outcome.meaning and outcome.action


def write(folder: Path, **expectation: Any) -> Path:
    written = {
        "type": "expect_column_values_to_not_be_null",
        "kwargs": {"column": "client_id"},
        "meta": {"id": "one", "says": "Something."},
        **expectation,
    }
    path = folder / "policy.json"
    text = {"name": "p", "meta": {"table": written.pop("table", "usage")}, "expectations": [written]}
    path.write_text(json.dumps(text))
    return path


@pytest.mark.parametrize(
    ("expectation", "said"),
    [
        ({"table": "orders"}, "there is no table orders; choose one of usage, connections, groups"),
        (
            {"kwargs": {"column": "owner"}},
            "one: there is no column owner; the table has client_software_name",
        ),
        ({"type": "expect_column_mean_to_be_between"}, "does not judge rows one by one"),
        ({"type": "expect_column_values_to_be_unique"}, "does not judge rows one by one"),
        ({"type": "expect_nothing"}, "one: expect_nothing not found"),
        ({"kwargs": {"column": "client_id", "regexp": "x"}}, "one: "),
        ({"severity": "grave"}, "one: "),
        ({"meta": {"id": "one"}}, "missing required field `says`"),
        ({"meta": {"id": "one", "says": "x", "owner": "y"}}, "unknown field `owner`"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_line_that_names_the_file(
    policies: ModuleType, tmp_path: Path, expectation: dict[str, Any], said: str
) -> None:
    path = write(tmp_path, **expectation)
    with pytest.raises(ValueError, match=r"policy\.json") as refused:
        policies.read_policies(path, COLUMNS)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_policy_has_a_name_of_its_own(policies: ModuleType, tmp_path: Path) -> None:
    text = write(tmp_path).read_text()
    (tmp_path / "other.yaml").write_text(text)
    with pytest.raises(ValueError, match="the name p is taken"):
        policies.read_policies(tmp_path, COLUMNS)
    (tmp_path / "other.yaml").write_text(text.replace('"p"', '"usage"'))
    with pytest.raises(ValueError, match="the name usage is taken"):
        policies.read_policies(tmp_path, COLUMNS)


def test_an_expectation_that_fails_itself_is_no_broken_policy(
    policies: ModuleType, suite: ModuleType, tmp_path: Path
) -> None:
    """A time without a zone cannot be compared with one that has a zone."""
    condition = {"row_condition": "minute > '2026-03-01'", "condition_parser": "pandas"}
    path = write(tmp_path, kwargs={"column": "client_id", **condition})
    (policy,) = policies.read_policies(path, COLUMNS)
    with pytest.raises(suite.SuiteError, match="p: one cannot be evaluated: Invalid comparison"):
        suite.validate(policy, pandas.DataFrame(ROWS["usage"]))


def test_a_folder_without_policies_is_refused(policies: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no policy"):
        policies.read_policies(tmp_path, COLUMNS)
    with pytest.raises(ValueError, match=r"cannot read .*: No such file or directory$"):
        policies.read_policies(tmp_path / "missing.yaml", COLUMNS)


@pytest.mark.parametrize(
    ("lower", "higher"), [("2.2.9", "2.3"), ("2.3", "2.16.1"), ("", "0.1"), ("v1.9", "v1.10-rc1")]
)
def test_versions_are_ordered_by_their_numbers(policies: ModuleType, lower: str, higher: str) -> None:
    assert policies.version_key(lower) < policies.version_key(higher)
