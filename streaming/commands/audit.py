"""`kipwatch audit`: validate the latest records of the frames topic with the Great Expectations suite."""

from __future__ import annotations

import argparse

from rich.console import Console

from streaming.settings.configuration import add_flags, configure
from streaming.user_error import UserError

PASSED, FAILED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the flags."""
    parser.add_argument(
        "--records", type=int, default=10_000, help="maximum number of records to read (default: 10000)"
    )
    add_flags(parser, ["bootstrap", "frames_topic"])


def run(arguments: argparse.Namespace) -> int:
    """Audit, and show the result of each expectation."""
    configuration = configure(arguments)
    if arguments.records < 1:
        raise UserError("--records must be a number above 0")
    from streaming.audit.audit import audit, audit_table  # noqa: PLC0415  # Great Expectations takes seconds to load

    topic = configuration.frames_topic
    result = audit(configuration.bootstrap, topic, arguments.records, configuration.kafka)
    Console().print(audit_table(result))
    return PASSED if result.success else FAILED
