"""The queries of docs/archive.md in SQL find rows, in DuckDB and in Spark, and the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from streaming.archive.tables import TABLES
from streaming.query.session import spark_session
from streaming.settings.configuration import Configuration
from tests.streaming.archive.test_archive import PAGE, archive_of_everything

QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    archive_of_everything(folder)
    return folder


@pytest.fixture(scope="module")
def database(archive: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            files = f"'{archive}/{table.name}/*/*.parquet', hive_partitioning = true, union_by_name = true"
            connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM read_parquet({files})")
        yield connection


def answered(database: duckdb.DuckDBPyConnection, query: str) -> Rows:
    return database.execute(query).fetchall()


def test_the_page_has_ten_queries() -> None:
    assert len(QUERIES) >= 10


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb_finds_rows(database: duckdb.DuckDBPyConnection, query: str) -> None:
    assert answered(database, query)


@pytest.fixture(scope="module")
def session(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(Configuration(checkpoint=str(tmp_path_factory.mktemp("checkpoint")))) as session:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        for table in TABLES:
            session.read.parquet(str(archive / table.name)).createOrReplaceTempView(table.name)
        yield session


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.parametrize("query", QUERIES)
def test_spark_finds_the_same(session: SparkSession, database: duckdb.DuckDBPyConnection, query: str) -> None:
    found = [tuple(row) for row in session.sql(query).collect()]
    assert sorted(map(comparable, found)) == sorted(map(comparable, answered(database, query)))


def comparable(row: tuple[Any, ...]) -> str:
    """Whole numbers as such, others rounded, times and days as text without their zone."""
    return str([_comparable(value) for value in row])


def _comparable(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if hasattr(value, "year"):
        return str(value).partition("+")[0]
    return round(float(value), 6)
