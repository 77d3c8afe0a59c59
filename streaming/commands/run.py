"""`kipwatch run`: the streaming query, until it is told to stop."""

from __future__ import annotations

import argparse
import signal

from streaming.broker.java import java
from streaming.configuration import add_flags, configure

SETTINGS = (
    "bootstrap",
    "frames_topic",
    "findings_topic",
    "metrics_address",
    "checkpoint",
    "buckets",
    "shuffle_partitions",
    "trigger_seconds",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_flags(parser, SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT."""
    configuration = configure(arguments)
    java()
    from streaming.query.application import Application  # noqa: PLC0415  # Spark takes seconds to load

    application = Application(configuration)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: application.stop())
    application.run()
    return 0
