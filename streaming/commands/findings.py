"""`kipwatch findings`: show the findings of a running query as they come."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import NoReturn

import msgspec
from rich.console import Console

from expectations.report.terminal import finding_line
from streaming.settings.configuration import add_flags, configure

POLL_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the documents of the topic, one a line")
    add_flags(parser, ["bootstrap", "findings_topic"])


def run(arguments: argparse.Namespace) -> NoReturn:
    """Print each finding of the topic once, also those to come, until interrupted."""
    from streaming.broker.topics import FindingsTopic  # noqa: PLC0415  # loads Kafka's client

    configuration = configure(arguments)
    console = Console(highlight=False)
    topic = FindingsTopic(configuration.bootstrap, configuration.findings_topic, configuration.kafka)
    with closing(topic):
        while True:
            for finding in topic.poll(POLL_SECONDS):
                if arguments.json:
                    print(msgspec.json.encode(finding).decode(), flush=True)
                else:
                    console.print(finding_line(finding), soft_wrap=True)
