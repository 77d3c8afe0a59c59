"""The validator: a process of its own, which reads samples of batches and writes what their suites say.

It has the lowest priority, so that it takes what the query leaves of the processors, and is the first to go
if memory is short. It ends with the query, because its standard input ends then.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from streaming.settings.configuration import Configuration
from streaming.validation.reply import Reply, Successes

FRAMES: Final = 1_000
"""Frames of the topic that are sampled: the latest."""
_LOWEST_PRIORITY: Final = 19
_FIRST_TO_GO: Final = "1000"
_LONGEST_PROBLEM: Final = 300


def main() -> None:
    """Read the configuration and then samples, which are packed reports, until the input ends."""
    _stay_behind()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not come between the replies.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(EOFError, BrokenPipeError):
        configuration: Configuration = pickle.load(requests)
        used = 0.0
        while True:
            successes, problem = validated(configuration, pickle.load(requests))
            used, before = time.process_time(), used
            pickle.dump(Reply(successes, used - before, problem), replies)
            replies.flush()


def validated(configuration: Configuration, sample: bytes) -> tuple[Successes, str]:
    """Validate a sample, and the latest frames of the topic. Returns the problem, if there was one."""
    successes: Successes = {}
    problems = []
    for part in (_tables, _topic):
        try:
            for suite, expectation, success in part(configuration, sample):
                successes[suite, expectation] = success
        # Whatever is wrong with a library or with Kafka, the query goes on and says so.
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM])
    return successes, "; ".join(problems)


def _tables(configuration: Configuration, sample: bytes) -> Iterator[tuple[str, str, bool]]:
    # Great Expectations takes seconds to load, and may fail to.
    from expectations.suites.validation import validate  # noqa: PLC0415
    from streaming.judging.report import unpack_report  # noqa: PLC0415
    from streaming.settings.release import load_schemas  # noqa: PLC0415
    from streaming.validation.sampled_tables import sampled_tables  # noqa: PLC0415

    for suite, rows in sampled_tables(unpack_report(sample), load_schemas(configuration.schemas)):
        if rows.empty:
            yield from ((suite.table, each.id, True) for each in suite.expectations)
        else:
            yield from ((suite.table, each.id, each.success) for each in validate(suite, rows).outcomes)


def _topic(configuration: Configuration, _sample: bytes) -> Iterator[tuple[str, str, bool]]:
    from streaming.audit.audit import audit  # noqa: PLC0415

    where = configuration.bootstrap, configuration.frames_topic
    for result in audit(*where, FRAMES, configuration.kafka):
        yield from ((result.table, each.id, each.success) for each in result.outcomes)


def _stay_behind() -> None:
    os.nice(_LOWEST_PRIORITY)
    # Only Linux has it.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


if __name__ == "__main__":
    main()
