"""The Spark session: local by default, bound to loopback, with state in RocksDB."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


def make_session(jars: Sequence[Path], shuffle_partitions: int) -> SparkSession:
    """Start Spark in this process's JVM with the connector's jars.

    `shuffle_partitions` is frozen into a checkpoint by its first batch.
    """
    # The driver-side worker of transformWithState reads only the environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder.appName("kipwatch").master("local[*]")
    for name, value in _settings(jars, shuffle_partitions).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(jars: Sequence[Path], shuffle_partitions: int) -> dict[str, str]:
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": rocksdb,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }
