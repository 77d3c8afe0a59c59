"""Grouping keys: our hash equals Spark's, and Spark spreads the buckets evenly over tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from streaming.query.session import spark_session
from streaming.query.stage_rows import bucket_of_key, key_of_bucket
from streaming.settings.configuration import Configuration

INTS = st.integers(-(2**31), 2**31 - 1)


@given(INTS)
def test_the_key_undoes_the_hash(number: int) -> None:
    assert bucket_of_key(key_of_bucket(number)) == number == key_of_bucket(bucket_of_key(number))


def test_a_key_maps_back_to_its_bucket() -> None:
    assert [bucket_of_key(key_of_bucket(bucket)) for bucket in range(5_000)] == [*range(5_000)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(Configuration(checkpoint=str(tmp_path_factory.mktemp("checkpoint")))) as session:
        yield session


@pytest.mark.jvm
def test_spark_spreads_buckets_evenly(session: SparkSession) -> None:
    """A key goes to the task with the number of its hash, modulo the number of tasks."""
    keys = session.createDataFrame([(key_of_bucket(bucket),) for bucket in range(256)], "bucket int")
    hashes = [row[0] for row in keys.select(sql.hash("bucket")).collect()]
    assert hashes == [*range(256)]
    for tasks in (2, 3, 8):
        dealt = keys.repartition(tasks, "bucket").select(sql.spark_partition_id()).collect()
        shares = Counter(row[0] for row in dealt).values()
        assert max(shares) - min(shares) <= 1 and len(shares) == tasks
