"""`kipwatch demo`: the whole road on real traffic."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from streaming.broker.java import java
from streaming.configuration import Configuration, add_flags, configure
from streaming.failure import UserError
from streaming.observe.observers import add_observe_flag, observed

FOUND, NOT_FOUND = 0, 1
PLAY_SECONDS = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--seconds", type=float, default=PLAY_SECONDS, help="bound of the play (default: 120)"
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running until Ctrl-C")
    parser.add_argument(
        "--relay", action="store_true", help="record by relays even where capturing is allowed"
    )
    parser.add_argument(
        "--recording",
        type=Path,
        default=Path("kipwatch-demo.pcap"),
        metavar="FILE",
        help="where to keep the recorded capture (default: kipwatch-demo.pcap)",
    )
    add_observe_flag(parser)
    add_flags(parser, ["metrics_address", "feeder_metrics_address"])


def run(arguments: argparse.Namespace) -> int:
    """Bring the road up, play, conclude, take it down."""
    configuration = configure(arguments)
    java()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kipwatch-demo-") as folder:
        # What the processes of the road leave behind goes with the folder.
        os.environ["TMPDIR"] = folder
        return _run_in(Path(folder), arguments, configuration)


def _run_in(folder: Path, arguments: argparse.Namespace, configuration: Configuration) -> int:
    from streaming.demo.demo import Demo  # noqa: PLC0415  # only once Java is known to be there
    from streaming.demo.road import Road  # noqa: PLC0415
    from streaming.demo.screen import Screen  # noqa: PLC0415
    from streaming.feeder.capture import can_capture  # noqa: PLC0415

    captured = can_capture() and not arguments.relay
    screen = Screen(Console(highlight=False))
    addresses = f"http://{configuration.metrics_address}/metrics, http://{configuration.feeder_metrics_address}/metrics"
    try:
        with (
            observed(arguments.observe, configuration, lambda told: screen.say(_in_words(told))),
            Road(folder, captured, configuration, screen.say) as road,
        ):
            demo = Demo(road, configuration, screen, captured)
            screen.say(f"metrics of the query and of the feeder: {addresses}")
            try:
                demo.play(arguments.seconds)
                demo.drain(arguments.keep)
                succeeded = demo.conclude()
                _keep(road.recording, arguments.recording)
                screen.say(f"try `kipwatch check {arguments.recording}`: the recorded capture")
                if arguments.keep:
                    _wait(screen.say, addresses, road.watched)
            finally:
                demo.close()
    except KeyboardInterrupt:
        screen.say("interrupted: everything that was started is ended")
        raise
    screen.say(f"everything is ended; with --keep it stays, metrics at {addresses}")
    return FOUND if succeeded else NOT_FOUND


def _in_words(addresses: dict[str, str]) -> str:
    return ", ".join(f"{name} at {address}" for name, address in addresses.items())


def _keep(recorded: Path, wanted: Path) -> None:
    try:
        shutil.copyfile(recorded, wanted)
    except OSError as error:
        raise UserError(
            f"cannot keep the recording as {wanted}: {error.strerror}; use --recording FILE"
        ) from error


def _wait(say: Callable[[str], None], addresses: str, watched: str) -> None:
    say(f"still running: a broker that is watched at {watched}, metrics at {addresses}")
    say("Ctrl-C ends everything")
    while True:
        time.sleep(1)
