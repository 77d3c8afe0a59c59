"""The Spark session: in this process by default, or on a cluster; state in RocksDB."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from streaming.broker.jars import jars
from streaming.query.checkpoint import choose_manager
from streaming.query.worker_archive import FOLDER, pack_shipment
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

LOOPBACK = "127.0.0.1"
LOCAL = "local[*]"
_KAFKA_SOURCE = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
WORKER_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter that a cluster's workers must have; all that it imports is shipped."""


@contextmanager
def spark_session(configuration: Configuration) -> Iterator[SparkSession]:
    """Start Spark, in a JVM of this process, with the connector's jars; leaving it stops it.

    Started by spark-submit it is told its master there, and its jars. The table [spark] has the last word.
    Raises UserError when the jars are missing.
    """
    # Takes what Spark and the libraries it unpacks leave behind, and what is shipped to a cluster's workers.
    with TemporaryDirectory(prefix="kipwatch-run-") as scratch:
        session = _make_session(configuration, jars("connector"), Path(scratch))
        try:
            yield session
        finally:
            # Whoever ends a whole process group may have ended the JVM first.
            with suppress(Py4JError, OSError):
                session.stop()


def _make_session(configuration: Configuration, connector: Sequence[Path], scratch: Path) -> SparkSession:
    settings = _settings(configuration, connector, scratch)
    settings["spark.master"] = master = configuration.master or _given_master()
    settings |= _in_process() if master.startswith("local") else _on_cluster(scratch)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder.appName("kipwatch")
    for name, value in (settings | configuration.spark).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # What ends a query is told by us, in a line; Spark would tell it with every trace it has.
    session.sparkContext.setLogLevel("FATAL")
    _demand_connector(session, connector)
    choose_manager(session, configuration)
    return session


def _given_master() -> str:
    return str(SparkConf().get("spark.master", LOCAL)) if _is_submitted() else LOCAL


def _demand_connector(session: SparkSession, connector: Sequence[Path]) -> None:
    """Make sure that the driver can read from Kafka: once it was submitted it takes no more jars."""
    jvm: Any = session.sparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_KAFKA_SOURCE):
        given = ",".join(str(jar) for jar in connector)
        raise UserError(
            f"Spark was submitted without what reads from Kafka: give spark-submit --jars {given}"
        )


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settings(configuration: Configuration, connector: Sequence[Path], scratch: Path) -> dict[str, str]:
    # The driver-side worker of transformWithState reads only the environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        "spark.jars": ",".join(str(jar) for jar in connector),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
        "spark.local.dir": str(scratch),
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(configuration.shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": rocksdb,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A larger batch folds to fewer rows. Spark bounds it by bytes, too.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.session.timeZone": "UTC",
        # Beyond Spark's own: what the Kafka source's options hold of secrets.
        "spark.redaction.regex": _SECRET,
        "spark.sql.redaction.options.regex": _SECRET,
    }


_SECRET = r"(?i)secret|password|token|access[.]?key|jaas|keystore"


def _in_process() -> dict[str, str]:
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }


def _on_cluster(scratch: Path) -> dict[str, str]:
    """Ship our packages and what they import: workers need a Python of this version and nothing else."""
    return {
        "spark.archives": f"{pack_shipment(scratch)}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
        "spark.executorEnv.PYSPARK_PYTHON": WORKER_PYTHON,
        "spark.pyspark.python": WORKER_PYTHON,
        "spark.pyspark.driver.python": sys.executable,
    }
