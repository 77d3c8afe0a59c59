"""`kipwatch bench NAME`: measure a part of kipwatch, compared with other tools where possible."""

from __future__ import annotations

import argparse
import importlib
import json
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.table import Table

from streaming.user_error import UserError

ROOM = "streaming.bench"
BENCHES = {
    "archiving": "the whole query with an archive, compared with the same query without one",
    "check": "captures to findings, compared with tshark printing Kafka's fields",
    "decode": "frames to columns, compared with kio, the scalar reader and an empty loop",
    "feed": "the whole feeder, compared with tracking alone, and the bytes it publishes",
    "hostile": "clients that say something new in each frame, compared with clients that all say the same",
    "latency": "from the capture of a frame to the metrics page",
    "owners": "whose a client is, by a long file of owners, compared with judging what the client does",
    "pipeline": "the whole query, compared with one that only passes records to Python",
    "state": "memory per connection, and the cost of idle connections",
    "storm": "all clients connecting anew at once, compared with steady traffic",
    "wire": "packets to frames, compared with dpkt and libpcap",
}
"""The benches by name, each a file of `streaming/bench/` with a function `measure`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the flags."""
    parser.add_argument("name", metavar="NAME", choices=list(BENCHES), help=f"one of {', '.join(BENCHES)}")
    parser.add_argument(
        "--json", action="store_true", help="print the report as one JSON object on the last line"
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print the report. Raises UserError where there are no benches: a wheel has none."""
    if find_spec(ROOM) is None:
        raise UserError(
            "the benches are not installed with kipwatch: they are in streaming/bench of its sources; "
            f"there, run make setup and .venv/bin/kipwatch bench {arguments.name}"
        )
    bench = importlib.import_module(f"{ROOM}.{arguments.name}")
    measured: dict[str, Any] = bench.measure()
    if arguments.json:
        print(json.dumps(measured))
    else:
        _show(measured)
    return 0


def _show(measured: dict[str, Any]) -> None:
    table = Table(title=f"bench {measured['name']}", title_justify="left")
    table.add_column("what")
    table.add_column("seen", justify="right")
    for name, value in {**measured["figures"], **measured["ratios"]}.items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    console = Console(highlight=False)
    console.print(table)
    console.print(", ".join(f"{name} {value}" for name, value in measured["machine"].items()), soft_wrap=True)
