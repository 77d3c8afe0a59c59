"""Keys of buckets: Spark hashes them as we say and deals them out evenly; a checkpoint keeps its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from streaming.configuration import Configuration
from streaming.query.checkpoint_keys import keys_of, mark_keys
from streaming.query.keys import MARK, Keys, key_with_hash, spark_hash
from streaming.query.session import spark_session

INTS = st.integers(-(2**31), 2**31 - 1)


@given(INTS)
def test_the_hash_can_be_turned_round(number: int) -> None:
    assert spark_hash(key_with_hash(number)) == number == key_with_hash(spark_hash(number))


@pytest.mark.parametrize("keys", Keys)
def test_a_bucket_is_found_again_by_its_key(keys: Keys) -> None:
    assert [keys.bucket(keys.key(bucket)) for bucket in range(5_000)] == [*range(5_000)]


def test_keys_of_one_kind_are_no_buckets_of_the_other() -> None:
    """So a checkpoint whose file was lost is refused, not read at the wrong place."""
    assert not any(0 <= key_with_hash(bucket) < 5_000 for bucket in range(5_000))
    assert not any(0 <= spark_hash(bucket) < 5_000 for bucket in range(5_000))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(Configuration(checkpoint=str(tmp_path_factory.mktemp("checkpoint")))) as session:
        yield session


@pytest.mark.jvm
def test_spark_deals_buckets_out_evenly(session: SparkSession) -> None:
    """It gives a key to the task that is its hash, modulo the number of tasks."""
    keys = session.createDataFrame([(Keys.DEALT.key(bucket),) for bucket in range(256)], "bucket int")
    hashes = [row[0] for row in keys.select(sql.hash("bucket")).collect()]
    assert hashes == [*range(256)]
    for tasks in (2, 3, 8):
        dealt = keys.repartition(tasks, "bucket").select(sql.spark_partition_id()).collect()
        shares = Counter(row[0] for row in dealt).values()
        assert max(shares) - min(shares) <= 1 and len(shares) == tasks


@pytest.mark.jvm
def test_a_checkpoint_with_batches_has_the_keys_it_was_made_with(
    session: SparkSession, tmp_path: Path
) -> None:
    made, earlier = tmp_path / "made", tmp_path / "earlier"
    assert keys_of(session, str(made)) is Keys.DEALT
    assert not made.exists()
    for checkpoint in (made, earlier):
        if checkpoint is made:
            mark_keys(session, str(checkpoint))
        (checkpoint / "offsets").mkdir(parents=True)
        mark_keys(session, str(checkpoint))
    assert (made / MARK).exists() and not (earlier / MARK).exists()
    assert [keys_of(session, str(checkpoint)) for checkpoint in (made, earlier)] == [
        Keys.DEALT,
        Keys.NUMBERED,
    ]


@pytest.mark.jvm
@pytest.mark.parametrize("checkpoint", ["", "nowhere://folder", "hdfs://127.0.0.1:9/folder"])
def test_what_is_no_checkpoint_is_left_to_the_query_to_tell(session: SparkSession, checkpoint: str) -> None:
    mark_keys(session, checkpoint)
    assert keys_of(session, checkpoint) is Keys.DEALT
