"""The Spark session: local by default, bound to loopback, with state in RocksDB."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


def make_session(jars: Sequence[Path], shuffle_partitions: int, scratch: Path) -> SparkSession:
    """Start Spark in a JVM of this process with the connector's jars.

    `shuffle_partitions` is frozen into a checkpoint by its first batch. `scratch` takes what Spark and
    the libraries it unpacks leave behind.
    """
    # The driver-side worker of transformWithState reads only the environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder.appName("kipwatch").master("local[*]")
    for name, value in _settings(jars, shuffle_partitions, scratch).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(jars: Sequence[Path], shuffle_partitions: int, scratch: Path) -> dict[str, str]:
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
        "spark.local.dir": str(scratch),
        "spark.sql.artifact.isolation.enabled": "false",
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
