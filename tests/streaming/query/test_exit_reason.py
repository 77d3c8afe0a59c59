"""What Spark says of an ending, as it says it, and the one line that is made of it."""

from __future__ import annotations

import re

import pytest

from streaming.query.exit_reason import ENDINGS, UNKNOWN, explain
from tests.repository.tree import ROOT

SAID = {
    "state-version": """[STREAM_FAILED] Query [id = 3c21] terminated with exception: Job aborted.
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "streaming/query/stages.py", line 150, in _load
streaming.state.state_error.StateError: the checkpoint holds state of version 9, this kipwatch writes 3: run
""",
    "spark-gone": "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n\tat x",
    "frames-lost": "org.apache.spark.SparkException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data",
    "findings-not-written": "FindingsNotWrittenError: findings were not written to f: no answer\n  at x",
    "kafka-away": "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
    "checkpoint-foreign": "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match",
    "checkpoint-corrupt": "java.lang.IllegalStateException: Incomplete log file in the offset log",
}


@pytest.mark.parametrize(
    "told",
    ["Py4JNetworkError: Answer from Java side is empty", "ConnectionRefusedError: [Errno 111] refused"],
)
def test_a_jvm_that_does_not_answer_is_gone(told: str) -> None:
    ending, _ = explain(told)
    assert ending.reason == "spark-gone"


@pytest.mark.parametrize("reason", SAID)
def test_a_known_cause_is_told_in_one_line(reason: str) -> None:
    ending, line = explain(SAID[reason])
    assert ending.reason == reason
    assert line and "\n" not in line and "Traceback" not in line


def test_a_state_of_another_version_says_what_the_state_says() -> None:
    _, line = explain(SAID["state-version"])
    assert line == "the checkpoint holds state of version 9, this kipwatch writes 3: run"


def test_only_what_needs_nobody_is_started_again() -> None:
    assert {ending.reason for ending in ENDINGS if ending.passes} == {"findings-not-written", "kafka-away"}


def test_the_page_on_running_names_every_reason() -> None:
    told = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs/run.md").read_text(), flags=re.MULTILINE)
    assert {ending.reason for ending in [*ENDINGS, UNKNOWN]} <= set(told)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("", "no reason given"),
        ("something odd\n\tat Spark.scala", "something odd"),
        ("Job aborted\nCaused by: the outer\nCaused by: the inner\n\tat x", "the inner"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_of_an_unknown_cause_the_innermost_is_told(told: str, line: str) -> None:
    ending, said = explain(told)
    assert (ending.reason, ending.passes, said) == ("unknown", False, line)
