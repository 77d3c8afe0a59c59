"""Spark's texts on the end of a query, and the reason and line that `explain` derives from them."""

from __future__ import annotations

import re

import pytest

from streaming.query.exit_reason import CHECKPOINT_GONE, EXIT_REASONS, UNKNOWN, explain
from tests.repository.tree import ROOT

ERROR_TEXTS = {
    "state-version": """[STREAM_FAILED] Query [id = 3c21] terminated with exception: Job aborted.
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "streaming/query/stages.py", line 150, in _load
streaming.state.state_error.StateError: the checkpoint holds state of version 9, this kipwatch writes 3: run
""",
    "spark-gone": "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x",
    "store-refuses": """An error occurred while calling o92.start.
: java.nio.file.AccessDeniedException: s3a://b/x: getFileStatus on s3a://b/x: \
software.amazon.awssdk.services.s3.model.S3Exception: The signature does not match. (Service: S3, \
Status Code: 403, Request ID: W) (SDK Attempt Count: 1):SignatureDoesNotMatch
""",
    "store-away": """An error occurred while calling o92.start.
: java.net.ConnectException: getFileStatus on s3a://b/x: software.amazon.awssdk.core.exception.\
SdkClientException: Unable to execute HTTP request: Connect to 127.0.0.1:18345 failed: Connection refused
Caused by: java.util.concurrent.TimeoutException: no
""",
    "frames-lost": "org.apache.spark.SparkException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data",
    "kafka-refuses": """org.apache.spark.sql.streaming.StreamingQueryException: Topic authorization failed.
Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Topic authorization failed.
""",
    "archive-not-written": "ArchiveNotWrittenError: cannot write a: No space left on device\n  at x",
    "disk-full": """[STREAM_FAILED] Query [id = 3c21] terminated with exception: Job aborted.
Caused by: org.rocksdb.RocksDBException: While appending to file: /c/000012.sst: No space left on device
""",
    "findings-not-written": "FindingsNotWrittenError: findings were not written to f: no answer\n  at x",
    "worker-not-started": """org.apache.spark.SparkException: Job aborted: Task 1 in stage 9.0 failed 1 \
times, most recent failure: org.apache.spark.SparkException: Python worker failed to connect back.
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker
Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back
\tat java.base/java.nio.channels.Selector.select(Selector.java:1)
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:1)
""",
    "worker-ended": """org.apache.spark.SparkException: Job aborted: Task 1 in stage 3.0 failed 1 \
times, most recent failure: Lost task 1.0 in stage 3.0 (TID 7): java.io.IOException: Stream closed
\tat java.base/java.lang.ProcessBuilder$NullOutputStream.write(ProcessBuilder.java:445)
\tat java.base/java.io.DataOutputStream.flush(DataOutputStream.java:128)
\tat org.apache.spark.api.python.PythonWorkerFactory.$anonfun$stopWorker$1(PythonWorkerFactory.scala:501)
""",
    "checkpoint-gone": CHECKPOINT_GONE,
    "checkpoint-not-written": """org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An
Caused by: java.io.FileNotFoundException: /c/state/1/1/.3.changelog.08ac.TID13.tmp (Read-only file system)
""",
    "kafka-away": "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
    "checkpoint-shared": """[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming \
jobs detected for 7. Please make sure only one streaming job runs on a specific checkpoint location at a time.
""",
    "checkpoint-foreign": "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match",
    "checkpoint-corrupt": "java.lang.IllegalStateException: Incomplete log file in the offset log",
}


@pytest.mark.parametrize(
    "error_text",
    [
        "Py4JNetworkError: Answer from Java side is empty",
        "Py4JError: An error occurred while calling o180.getActiveStageIds",
        "ConnectionRefusedError: [Errno 111] refused",
    ],
)
def test_a_jvm_that_does_not_answer_is_gone(error_text: str) -> None:
    reason, _ = explain(error_text)
    assert reason.name == "spark-gone"


def test_an_error_of_a_living_jvm_does_not_mean_that_it_is_gone() -> None:
    reason, _ = explain("Py4JError: An error occurred while calling o1.x. Trace:\njava.lang.Error: x")
    assert reason.name != "spark-gone"


@pytest.mark.parametrize("name", ERROR_TEXTS)
def test_a_known_reason_is_explained_in_one_line(name: str) -> None:
    reason, line = explain(ERROR_TEXTS[name])
    assert reason.name == name
    assert line and "\n" not in line and "Traceback" not in line


def test_the_line_for_a_state_of_another_version_is_the_message_of_the_state_error() -> None:
    _, line = explain(ERROR_TEXTS["state-version"])
    assert line == "the checkpoint holds state of version 9, this kipwatch writes 3: run"


ALIKE = {
    "checkpoint-corrupt": [
        # A file of the state's schema is missing.
        "FileNotFoundException: File file:/mnt/a/state/0/_stateSchema/default/0 does not exist",
        "FileNotFoundException: No such file or directory: s3a://b/k/state/1/_stateSchema/default/0_7",
        # `metadata` is empty, or gone; the latest file of `offsets` is cut off, or another than its checksum.
        "com.fasterxml.jackson.databind.exc.MismatchedInputException: No content to map due to end-of-input",
        "SparkRuntimeException: [STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint location file:/c is",
        "Caused by: com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input in field name",
        "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/offsets/8 at 1024 exp: 7",
        # `offsets` is gone.
        "Caused by: java.lang.AssertionError: assertion failed\n\tat scala.Predef$.assert(Predef.scala:264)\n"
        "\tat org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution.initializeExecution(x:1)",
        "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)\n"
        "\tat org.apache.spark.sql.execution.streaming.state.StateStoreChangelogReader.next(x.scala:1)",
    ],
    "worker-ended": [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.x\n"
        "Caused by: java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(x.java:1)\n"
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.read(PythonRunner.scala:9)",
        "[STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE] Streaming Runner initialization",
        "EOFException occurred while reading the port number from pyspark.daemon's stdout.\n\tat org.x",
    ],
}
"""Further texts by reason. Some of a worker that was killed look like those of a damaged checkpoint."""


@pytest.mark.parametrize(("name", "error_text"), [(name, text) for name in ALIKE for text in ALIKE[name]])
def test_a_killed_worker_and_a_damaged_checkpoint_are_told_apart(name: str, error_text: str) -> None:
    reason, _ = explain(error_text)
    assert reason.name == name


def test_only_transient_reasons_restart_the_query() -> None:
    assert {reason.name for reason in EXIT_REASONS if reason.transient} == {
        "archive-not-written",
        "findings-not-written",
        "kafka-away",
        "store-away",
        "worker-ended",
        "worker-not-started",
    }


@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_is_busy_is_away(status: int) -> None:
    text = (
        f"on s3a://b/x: software.amazon.awssdk.services.s3.model.S3Exception: Slow (Status Code: {status}, R)"
    )
    reason, _ = explain(text)
    assert reason.name == "store-away"


def test_a_missing_bucket_is_named() -> None:
    text = (
        "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/x': getFileStatus on s3a://b/x: "
        "software.amazon.awssdk.services.s3.model.NoSuchBucketException: The specified bucket does not "
        "exist. (Service: S3, Status Code: 404, Request ID: PE) (SDK Attempt Count: 1)"
    )
    reason, line = explain(text)
    assert reason.name == "store-refuses" and "The specified bucket does not exist." in line


def test_the_page_on_running_names_every_reason() -> None:
    named = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/run.md").read_text(), flags=re.MULTILINE)
    assert {reason.name for reason in [*EXIT_REASONS, UNKNOWN]} <= set(named)


@pytest.mark.parametrize(
    ("error_text", "line"),
    [
        ("", "no reason given"),
        ("something odd\n\tat Spark.scala", "something odd"),
        ("Job aborted\nCaused by: the outer\nCaused by: the inner\n\tat x", "the inner"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_an_unknown_reason_is_explained_by_its_innermost_cause(error_text: str, line: str) -> None:
    reason, explained = explain(error_text)
    assert (reason.name, reason.transient, explained) == ("unknown", False, line)
