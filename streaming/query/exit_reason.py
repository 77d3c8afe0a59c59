"""Why a query ended by itself: one line that says what happened and what to do.

Spark reports it in an exception with the whole history of a failed task. Known reasons are recognised by a
pattern and come with advice; for any other, the line is the message of the innermost cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CHECKPOINT_GONE: Final = "the folder of the checkpoint is not the one that the query began with"
"""The text on the end of a query that finds so itself: Spark goes on."""
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class ExitReason:
    """A reason that is recognised by a pattern in Spark's text. `advice` may refer to the pattern's groups.

    `transient` reasons need no action: the query is started again.
    """

    name: str
    pattern: re.Pattern[str]
    advice: str
    transient: bool = False


EXIT_REASONS: Final = (
    ExitReason(
        "spark-gone",
        re.compile(
            r"stopped SparkContext|SparkContext was shut down|RpcEnv already stopped"
            r"|^(?:Py4JNetworkError|Connection\w+Error|BrokenPipeError):"
            # A call in which the JVM died. After an error of a living JVM a trace follows here.
            r"|^Py4JError: An error occurred while calling [\w.]+\Z"
        ),
        "Spark is gone: its JVM was told to end, was killed, or ran out of memory; run kipwatch again with "
        "the same checkpoint, nothing is lost as long as the topic holds it",
    ),
    ExitReason(
        "store-refuses",
        re.compile(r"\b(?:S3|NoSuchBucket)Exception: ([^\n(]+?) \([^\n)]*Status Code: 4(?!29)"),
        r"the object store refuses the checkpoint: \1 Correct the bucket, its rights, or the credentials",
    ),
    ExitReason(
        "store-away",
        re.compile(r"\bon s3a://[^\n]*(?:SdkClientException|S3Exception)"),
        "the object store of the checkpoint does not answer; nothing is lost as long as the topic holds it",
        transient=True,
    ),
    ExitReason(
        "state-version",
        re.compile(r"StateError: ([^\n]+)"),
        r"\1",
    ),
    ExitReason(
        "frames-lost",
        re.compile(
            r"Some data may have been lost|some data may have been missed|KAFKA_DATA_LOSS"
            r"|OffsetOutOfRangeException|Cannot fetch offset"
        ),
        "the frames topic no longer holds all frames after the checkpoint's place (they expired, or the "
        "topic was created again): run with --after-loss true to continue with what is left, where all open "
        "connections count as interrupted, or start with a new checkpoint folder",
    ),
    ExitReason(
        "topic-deleted",
        re.compile(r"UnknownTopicOrPartition|does not host this topic|topics.*(?:deleted|not exist)"),
        "the frames topic is gone: start kipwatch with --after-loss true, which creates it again and "
        "continues from this checkpoint",
    ),
    ExitReason(
        "kafka-refuses",
        re.compile(r"errors\.\w*(?:Authorization|Authentication)Exception: ([^\n]+)"),
        r"Kafka refuses the query's reads: \1 Correct the rights or the login (docs/run.md lists the ACLs)",
    ),
    ExitReason(
        "findings-not-written",
        re.compile(r"FindingsNotWrittenError: ([^\n]+)"),
        r"\1; the batch is judged again",
        transient=True,
    ),
    ExitReason(
        "archive-not-written",
        re.compile(r"ArchiveNotWrittenError: ([^\n]+)"),
        r"\1; the batch is judged again",
        transient=True,
    ),
    ExitReason(
        "disk-full",
        re.compile("No space left on device"),
        "the disk of the checkpoint, or of temporary files, is full: free space and run kipwatch again with "
        "the same checkpoint; nothing is lost as long as the topic holds it",
    ),
    ExitReason(
        "checkpoint-shared",
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|Multiple streaming jobs detected"),
        "another query uses the same checkpoint: stop one of them, or give each a checkpoint of its own",
    ),
    ExitReason(
        "checkpoint-gone",
        # `chmod` says so while the folder is being deleted.
        re.compile(rf"{CHECKPOINT_GONE}|chmod: cannot access "),
        "the folder of the checkpoint was deleted, moved or replaced while the query ran: put it or a copy "
        "back, or start with a new checkpoint folder",
    ),
    ExitReason(
        "checkpoint-not-written",
        re.compile(r"Read-only file system|\(Permission denied\)|Input/output error"),
        "the checkpoint, or a temporary file, cannot be written: look at its disk and its rights, and run "
        "kipwatch again with the same checkpoint; nothing is lost as long as the topic holds it",
    ),
    ExitReason(
        "worker-not-started",
        # Spark gives a new Python process a fixed 10 s.
        re.compile(r"Python worker failed to connect back|for the Python worker to connect back"),
        "Spark's Python worker did not start within 10 s: the machine has too much else to do; nothing is "
        "lost as long as the topic holds it",
        transient=True,
    ),
    ExitReason(
        "worker-ended",
        # The first of Spark's lines in the trace says whose connection broke.
        re.compile(
            r"Python worker exited unexpectedly|STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE"
            r"|EOFException occurred while reading the port number"
            r"|java\.(?:io|net|nio)\.[\w.]*Exception\b(?!: Cannot run program)[^\n]*"
            r"(?:\n\tat (?!org\.apache\.spark)[^\n]*)*"
            r"\n\tat org\.apache\.spark\.(?:sql\.execution|api)\.python\."
        ),
        "one of Spark's Python workers ended: it was killed, perhaps because memory was short; nothing is "
        "lost as long as the topic holds it",
        transient=True,
    ),
    ExitReason(
        "checkpoint-foreign",
        re.compile(
            r"STATE_STORE_\w*SCHEMA|STATEFUL_OPERATOR_NOT_MATCH|STREAMING_STATEFUL_OPERATOR|state metadata"
            r"|INVALID_STATEFUL|incompatible|different (?:query|source)|number of sources"
        ),
        "the checkpoint is of another query or of other settings: run with the settings it was made with "
        "(buckets, shuffle partitions), or start with a new checkpoint folder",
    ),
    ExitReason(
        "checkpoint-corrupt",
        re.compile(
            # The commits have no offsets.
            r"assertion failed\n\tat scala\S+\n\tat \S+\.MicroBatchExecution\.initializeExecution"
            # A file of the state's schema is missing.
            r"|(?:File |directory: )\S+?/state/\d+/_stateSchema/"
            r"|CANNOT_LOAD_STATE_STORE|CHECKPOINT_FILE|CHECKPOINT_MISSING_METADATA|MALFORMED|EOFException"
            r"|Incomplete log file|Corruption|ChecksumException|NumberFormatException|com\.fasterxml\.jackson"
            r"|metadata.*(?:corrupt|malformed)|ZstdException|ZstdError|DecodeError|ValidationError"
        ),
        "the checkpoint cannot be read: put a copy of it back, or start with a new checkpoint folder",
    ),
    ExitReason(
        "kafka-away",
        re.compile(r"TimeoutException|DisconnectException|No resolvable bootstrap|NetworkException"),
        "Kafka does not answer; nothing is lost as long as the topic holds it",
        transient=True,
    ),
)
UNKNOWN: Final = ExitReason("unknown", re.compile(""), "")


def explain(error_text: str) -> tuple[ExitReason, str]:
    """Return the reason for Spark's text on the end of a query, and the line to log."""
    for reason in EXIT_REASONS:
        found = reason.pattern.search(error_text)
        if found:
            return reason, found.expand(reason.advice)
    return UNKNOWN, _innermost_cause(error_text)[:_LONGEST]


def _innermost_cause(error_text: str) -> str:
    """Return the last cause of a chain of exceptions, or the first line."""
    causes = re.findall(r"^(?:Caused by: |[\w.]+(?:Error|Exception): )([^\n]+)", error_text, re.MULTILINE)
    lines = [line for line in error_text.splitlines() if line.strip()]
    return causes[-1] if causes else lines[0] if lines else "no reason given"
