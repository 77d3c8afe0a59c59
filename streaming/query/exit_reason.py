"""Why a query ended by itself: one line that says what happened and what to do.

Spark tells it in an exception that holds the whole history of a failed task. What can be done about it is
known of a few causes; of any other the innermost message is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Ending:
    """A cause that is known by a sign in what Spark says. `advice` may quote the sign's groups.

    One that `passes` needs nobody: the query may be started again.
    """

    reason: str
    sign: re.Pattern[str]
    advice: str
    passes: bool = False


ENDINGS: Final = (
    Ending(
        "spark-gone",
        re.compile(
            r"stopped SparkContext|SparkContext was shut down|RpcEnv already stopped"
            r"|^(?:Py4JNetworkError|Connection\w+Error|BrokenPipeError):"
        ),
        "Spark is gone: its JVM was told to end, was killed, or ran out of memory; run kipwatch again with "
        "the same checkpoint, nothing is lost as long as the topic holds it",
    ),
    Ending(
        "state-version",
        re.compile(r"StateError: ([^\n]+)"),
        r"\1",
    ),
    Ending(
        "frames-lost",
        re.compile(
            r"Some data may have been lost|some data may have been missed|KAFKA_DATA_LOSS"
            r"|OffsetOutOfRangeException|Cannot fetch offset"
        ),
        "the frames topic no longer holds all frames after the checkpoint's place (they expired, or the "
        "topic was made anew): run with --after-loss true to go on with what is left, all connections taken "
        "as interrupted there, or start with a new checkpoint folder",
    ),
    Ending(
        "topic-deleted",
        re.compile(r"UnknownTopicOrPartition|does not host this topic|topics.*(?:deleted|not exist)"),
        "the frames topic is gone: kipwatch makes it anew when it is started again, with --after-loss true "
        "to go on from this checkpoint",
    ),
    Ending(
        "checkpoint-foreign",
        re.compile(
            r"STATE_STORE_\w*SCHEMA|STATEFUL_OPERATOR_NOT_MATCH|STREAMING_STATEFUL_OPERATOR|state metadata"
            r"|INVALID_STATEFUL|incompatible|different (?:query|source)|number of sources"
        ),
        "the checkpoint is of another query or of other settings: run with the settings it was made with "
        "(buckets, shuffle partitions), or start with a new checkpoint folder",
    ),
    Ending(
        "checkpoint-corrupt",
        re.compile(
            r"CANNOT_LOAD_STATE_STORE|CHECKPOINT_FILE|MALFORMED|Incomplete log file|EOFException"
            r"|Corruption|JsonParseException|JsonMappingException|NumberFormatException"
            r"|metadata.*(?:corrupt|malformed)|ZstdException|ZstdError|DecodeError|ValidationError"
        ),
        "the checkpoint cannot be read: put a copy of it back, or start with a new checkpoint folder",
    ),
    Ending(
        "findings-not-written",
        re.compile(r"FindingsNotWrittenError: ([^\n]+)"),
        r"\1; the batch is judged again",
        passes=True,
    ),
    Ending(
        "kafka-away",
        re.compile(r"TimeoutException|DisconnectException|No resolvable bootstrap|NetworkException"),
        "Kafka does not answer; nothing is lost as long as the topic holds it",
        passes=True,
    ),
)
UNKNOWN: Final = Ending("unknown", re.compile(""), "")


def explain(told: str) -> tuple[Ending, str]:
    """Give the cause, and the line to tell, for all that Spark said of an ending."""
    for ending in ENDINGS:
        found = ending.sign.search(told)
        if found:
            return ending, found.expand(ending.advice)
    return UNKNOWN, _innermost(told)[:_LONGEST]


def _innermost(told: str) -> str:
    """Pick the last cause of a chain of exceptions, or the first line."""
    causes = re.findall(r"^(?:Caused by: |[\w.]+(?:Error|Exception): )([^\n]+)", told, re.MULTILINE)
    lines = [line for line in told.splitlines() if line.strip()]
    return causes[-1] if causes else lines[0] if lines else "no reason given"
