"""The Spark session: in this process by default, or on a cluster; state in RocksDB.

The JVM of Spark's driver is a process of its own, whose output becomes lines of our log instead of mixing
with them.

On a cluster, Spark's workers import our packages and their dependencies from an archive that the driver
sends them: they need a Python of this version and nothing else.

Hadoop looks the user's name up before Spark does anything, even before it reads a jar, and fails for a user
without a name and a home, as in some containers and systemd units. For such a user we log the JVM in under a
fixed name, and it does not read jars through Hadoop.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
import subprocess
import sys
import tarfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from expectations.rules.catalogue import PACKS
from streaming.broker.jars import jars
from streaming.broker.ports import HOST
from streaming.log import JVM_LOG
from streaming.query.checkpoint import choose_file_manager, on_s3
from streaming.settings.configuration import Configuration
from streaming.user_error import UserError

LOCAL = "local[*]"
_OUR_PACKAGES = Path(__file__).parents[2]
_KAFKA_SOURCE = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
WORKER_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter that a cluster's workers must have; the worker archive holds everything it imports."""
INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings by which Spark generates no code.

A batch has few, large rows, for which code costs more than it saves: without it the first batch ends 4 s
sooner, and each of the others takes a tenth less.
"""
SECRET: Final = r"(?i)secret|password|token|access[.]?key|jaas|keystore"
"""Settings with such names are redacted wherever Spark shows settings."""
_NAMELESS_USER: Final = "kipwatch"
"""The name that Spark gets for a user without one."""
_QUIET, _TALKATIVE = "FATAL", "INFO"
"""Levels of Spark's own log. We log the end of a query in one line, where Spark would log stack traces."""
_TROUBLE: Final = re.compile(
    r"\b(Error|FATAL|fatal error|OutOfMemory\w*|SIG[A-Z]{3,4})\b|Exception in thread|[Ii]nvalid"
)
_REMEMBERED: Final = 20
"""Latest lines of output, which may hold the reason of a failed start."""
ARCHIVE_FOLDER: Final = "kipwatch-archive"
"""The folder into which a worker unpacks the archive, below its working directory."""
_PACKAGES: Final = ("decoders", "expectations", "streaming")
_NEEDED: Final = ("msgspec", "numba", "numpy", "pyarrow", "zstandard", "pandas", "protobuf")
"""Distributions that are imported by our stages, or by PySpark's own worker for transformWithState."""
_REQUIRED = re.compile(r"[\w.-]+")


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
    _start_context(SparkConf().setAppName("kipwatch").setAll(list(all_settings.items())))
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
        # In the first minutes the optimising compiler takes half of the JVM's time, and makes small batches a
        # sixth longer.
        "spark.driver.extraJavaOptions": (
            f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData -XX:TieredStopAtLevel=1"
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(configuration.shuffle_partitions),
        "spark.sql.streaming.stateStore.providerClass": rocksdb,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        **INTERPRETED,
        # A larger batch folds to fewer rows. Spark limits it by bytes, too.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.session.timeZone": "UTC",
        # Spark's default pattern misses secrets in options of the Kafka source.
        "spark.redaction.regex": SECRET,
        "spark.sql.redaction.options.regex": SECRET,
    }


def _in_process() -> dict[str, str]:
    # On a cluster Spark looks for the driver's address itself: executors elsewhere cannot reach a loopback.
    os.environ.setdefault("SPARK_LOCAL_IP", HOST)
    return {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }


def _on_cluster(scratch: Path) -> dict[str, str]:
    """Send the worker archive."""
    return {
        "spark.archives": f"{_pack_worker_archive(scratch)}#{ARCHIVE_FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{ARCHIVE_FOLDER}",
        "spark.executorEnv.PYSPARK_PYTHON": WORKER_PYTHON,
        "spark.pyspark.python": WORKER_PYTHON,
        "spark.pyspark.driver.python": sys.executable,
    }


def _start_context(conf: SparkConf) -> None:
    """Start Spark in a JVM of its own, whose output is logged: trouble as warnings, all else for debugging.

    A JVM that exists is used as it is: that of spark-submit, or of an earlier context of this process. Raises
    UserError if the JVM does not start.
    """
    if SparkContext._gateway is not None or _is_submitted():
        context = SparkContext.getOrCreate(conf)
    else:
        context = SparkContext(conf=conf, gateway=_launch(conf))
    context.setLogLevel(_TALKATIVE if JVM_LOG.logger.isEnabledFor(logging.DEBUG) else _QUIET)


def _launch(conf: SparkConf) -> object:
    reading, writing = os.pipe()
    output = _Output(os.fdopen(reading, "rb"))
    try:
        gateway = launch_gateway(conf, {"stdout": writing, "stderr": subprocess.STDOUT})
    except PySparkRuntimeError:
        os.close(writing)
        writing = -1
        output.join()
        raise UserError(f"Spark's JVM did not start: {output.trouble()}") from None
    finally:
        if writing >= 0:
            os.close(writing)
    if is_nameless():
        _log_in(gateway)
    return gateway


class _Output(threading.Thread):
    """Logs the output of a JVM until it ends."""

    def __init__(self, lines: BinaryIO) -> None:
        super().__init__(name="jvm-output", daemon=True)
        self._lines = lines
        self._latest: deque[str] = deque(maxlen=_REMEMBERED)
        self.start()

    def run(self) -> None:
        with self._lines:
            for line in self._lines:
                text = line.decode(errors="replace").strip()
                if text:
                    self._latest.append(text)
                    log = JVM_LOG.warning if _TROUBLE.search(text) else JVM_LOG.debug
                    log("output", line=text)

    def trouble(self) -> str:
        """Return the line that best says why the JVM ended."""
        trouble = (line for line in self._latest if _TROUBLE.search(line))
        return next(trouble, self._latest[-1] if self._latest else "it printed nothing")


def is_nameless() -> bool:
    """Whether the machine has no name for the user of this process."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return True
    return False


def nameless_settings(master: str, jars: Sequence[Path], scratch: Path, java_options: str) -> dict[str, str]:
    """Return settings with which a JVM starts without a login; they replace `spark.jars`.

    Raises UserError for a cluster: Spark would log in to send jars to it.
    """
    if not master.startswith("local"):
        raise UserError(
            f"user {os.getuid()} has no name on this machine, and Spark needs one for a cluster: "
            "add the user to /etc/passwd, or run as one that has a name"
        )
    return {
        "spark.jars": "",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        # Java takes it from the machine's list of users, not from the environment.
        "spark.driver.extraJavaOptions": f"{java_options} -Duser.home={scratch}",
    }


def _log_in(gateway: Any) -> None:
    """Log the JVM in under a fixed name, without asking the machine's list of users."""
    users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(_NAMELESS_USER))


def _pack_worker_archive(folder: Path) -> Path:
    """Write our packages and their dependencies into an archive in a folder, and return its path."""
    archive = folder / f"{ARCHIVE_FOLDER}.tar"
    with tarfile.open(archive, "w") as packed:
        for source, name in _files():
            packed.add(source, name)
    return archive


def _files() -> Iterator[tuple[Path, str]]:
    for package in (*_PACKAGES, *(pack.package for pack in PACKS)):
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                yield path, f"{package}/{path.relative_to(root)}"
    packs = [pack.distribution for pack in PACKS if pack.distribution is not None]
    for found in (*_distributions(_NEEDED).values(), *packs):
        yield from _installed(found)


def _distributions(names: Iterable[str]) -> dict[str, Distribution]:
    """Return distributions and their dependencies, apart from those for other platforms."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        # A dependency that is not installed is for another platform.
        with suppress(PackageNotFoundError):
            if name not in found:
                found[name] = distribution(name)
                waiting += [
                    _named(needed) for needed in found[name].requires or () if "extra ==" not in needed
                ]
    return found


def _named(requirement: str) -> str:
    named = _REQUIRED.match(requirement)
    assert named is not None
    return named[0]


def _installed(found: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield a distribution's files, without tests, byte code and files outside site-packages."""
    for file in found.files or ():
        outside = file.parts[0] == ".." or "tests" in file.parts
        if not outside and file.suffix != ".pyc":
            yield Path(str(found.locate_file(file))), str(file)
