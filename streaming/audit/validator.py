"""The validator: a process of its own, which reads samples of batches and writes the results of their suites.

It has the lowest priority, so that it takes the processor time that the query leaves, and is the first to be
killed if memory is short. It ends with the query, because its standard input ends then.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streaming.audit.live_validation import Demands, Reply, Successes
from streaming.judging.report import unpack_report
from streaming.settings.configuration import Configuration
from streaming.settings.release import load_schemas

if TYPE_CHECKING:
    from expectations.suites.suite import Suite, SuiteResult

FRAMES: Final = 1_000
"""Frames of the topic that are sampled: the latest."""
_LOWEST_PRIORITY: Final = 19
_FIRST_TO_GO: Final = "1000"
_LONGEST_PROBLEM: Final = 300


def main() -> None:
    """Read the configuration and then samples, which are packed reports, until the input ends."""
    _stay_behind()
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Output of libraries must not mix with the replies.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(EOFError, BrokenPipeError):
        configuration: Configuration = pickle.load(requests)
        used = 0.0
        while True:
            successes, demands, problem = validated(configuration, pickle.load(requests))
            used, before = time.process_time(), used
            pickle.dump(Reply(successes, used - before, problem, demands), replies)
            replies.flush()


def validated(configuration: Configuration, sample: bytes) -> tuple[Successes, Demands, str]:
    """Validate a sample by the suites of its tables and by policies, and the latest frames of the topic.

    Returns the successes, what policies demand, and the problem, if there was one.
    """
    successes: Successes = {}
    demands: Demands = {}
    problems = []
    for part in (_tables, _policies, _topic):
        try:
            for result in part(configuration, sample):
                for each in result.outcomes:
                    successes[result.table, each.id] = each.success
                    if part is _policies:
                        demands[result.table, each.id] = each.meaning
        # The query logs any failure of a library or of Kafka, and goes on.
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM])
    return successes, demands, "; ".join(problems)


def _tables(configuration: Configuration, sample: bytes) -> Iterator[SuiteResult]:
    # Great Expectations takes seconds to load, and may fail to.
    from streaming.audit.audit import suites_at  # noqa: PLC0415

    yield from _of_sample(
        configuration, sample, suites_at(time.time_ns(), load_schemas(configuration.schemas))
    )


def _policies(configuration: Configuration, sample: bytes) -> Iterator[SuiteResult]:
    from streaming.audit.audit import policies_of  # noqa: PLC0415

    if configuration.policies:
        yield from _of_sample(configuration, sample, policies_of(Path(configuration.policies)))


def _of_sample(configuration: Configuration, sample: bytes, suites: Sequence[Suite]) -> Iterator[SuiteResult]:
    """Validate the rows that a sample has for each suite; one without rows is met."""
    from expectations.suites.suite import SuiteResult, outcome_of, validate  # noqa: PLC0415
    from streaming.audit.audit import sampled_tables  # noqa: PLC0415

    for suite, rows in sampled_tables(unpack_report(sample), load_schemas(configuration.schemas), suites):
        if rows.empty:
            met = (outcome_of(each, success=True, unexpected_count=0) for each in suite.expectations)
            yield SuiteResult(suite.name, 0, tuple(met))
        else:
            yield validate(suite, rows)


def _topic(configuration: Configuration, _sample: bytes) -> Iterator[SuiteResult]:
    from streaming.audit.audit import audit  # noqa: PLC0415

    topic, schemas = configuration.frames_topic, load_schemas(configuration.schemas)
    yield from audit(configuration.bootstrap, topic, FRAMES, configuration.kafka, schemas)


def _stay_behind() -> None:
    os.nice(_LOWEST_PRIORITY)
    # Only Linux has it.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


if __name__ == "__main__":
    main()
