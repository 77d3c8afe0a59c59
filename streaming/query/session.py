"""The Spark session: in this process by default, or on a cluster; state in RocksDB."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from streaming.broker.jars import jars
from streaming.query.checkpoint import choose_file_manager, on_s3
from streaming.query.jvm import start_context
from streaming.query.nameless_user import is_nameless, nameless_settings
from streaming.query.worker_archive import FOLDER, pack_worker_archive
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

LOOPBACK = "127.0.0.1"
LOCAL = "local[*]"
_OUR_PACKAGES = Path(__file__).parents[2]
_KAFKA_SOURCE = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
WORKER_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter that a cluster's workers must have; the worker archive holds everything it imports."""


@contextmanager
def spark_session(configuration: Configuration) -> Iterator[SparkSession]:
    """Start Spark with the connector's jars, and stop it on exit.

    Under spark-submit, master and jars come from its command line. Settings of the table [spark] override
    ours. Raises UserError if the jars are missing.
    """
    # Holds temporary files of Spark and of the native libraries it unpacks, and the worker archive.
    with TemporaryDirectory(prefix="kipwatch-run-") as scratch:
        session = _make_session(configuration, _jars(configuration), Path(scratch))
        try:
            yield session
        finally:
            # A signal to the whole process group may have ended the JVM first.
            with suppress(Py4JError, OSError):
                session.stop()


def _jars(configuration: Configuration) -> list[Path]:
    return [*jars("connector"), *(jars("s3") if on_s3(configuration.checkpoint) else [])]


def _make_session(configuration: Configuration, connector: Sequence[Path], scratch: Path) -> SparkSession:
    settings = _settings(configuration, connector, scratch)
    settings["spark.master"] = master = configuration.master or _given_master()
    settings |= _in_process() if master.startswith("local") else _on_cluster(scratch)
    if is_nameless() and not _is_submitted():
        java_options = settings["spark.driver.extraJavaOptions"]
        settings |= nameless_settings(master, connector, scratch, java_options)
    all_settings = settings | configuration.spark
    start_context(SparkConf().setAppName("kipwatch").setAll(list(all_settings.items())))
    builder = SparkSession.builder
    for name, value in all_settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    _demand_connector(session, connector)
    choose_file_manager(session, configuration)
    return session


def _given_master() -> str:
    return str(SparkConf().get("spark.master", LOCAL)) if _is_submitted() else LOCAL


def _demand_connector(session: SparkSession, connector: Sequence[Path]) -> None:
    """Raise UserError if the driver lacks the Kafka source: a submitted driver cannot load more jars."""
    jvm: Any = session.sparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_KAFKA_SOURCE):
        paths = ",".join(str(jar) for jar in connector)
        raise UserError(
            f"Spark was submitted without what reads from Kafka: give spark-submit --jars {paths}"
        )


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settings(configuration: Configuration, connector: Sequence[Path], scratch: Path) -> dict[str, str]:
    # The driver-side worker of transformWithState reads only the environment.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # A wheel holds our packages in a folder that other processes do not search.
    searched = [str(_OUR_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(searched))
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
        # A larger batch folds to fewer rows. Spark limits it by bytes, too.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.session.timeZone": "UTC",
        # Spark's default pattern misses secrets in options of the Kafka source.
        "spark.redaction.regex": SECRET,
        "spark.sql.redaction.options.regex": SECRET,
    }


SECRET: Final = r"(?i)secret|password|token|access[.]?key|jaas|keystore"
"""The names of settings that Spark shows nowhere."""


def _in_process() -> dict[str, str]:
    # On a cluster Spark looks for the driver's address itself: executors elsewhere cannot reach a loopback.
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }


def _on_cluster(scratch: Path) -> dict[str, str]:
    """Send our packages and their imports: workers need a Python of this version and nothing else."""
    return {
        "spark.archives": f"{pack_worker_archive(scratch)}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
        "spark.executorEnv.PYSPARK_PYTHON": WORKER_PYTHON,
        "spark.pyspark.python": WORKER_PYTHON,
        "spark.pyspark.driver.python": sys.executable,
    }
