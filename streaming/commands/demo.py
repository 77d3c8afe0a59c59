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
from streaming.observe.observers import add_observe_flag, observed
from streaming.settings.configuration import Configuration, add_flags, configure
from streaming.settings.decisions import Decisions
from streaming.user_error import UserError

FOUND, NOT_FOUND = 0, 1
PLAY_SECONDS = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--seconds", type=float, default=PLAY_SECONDS, help="bound of the play (default: 120)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave everything running until Ctrl-C; --observe does, too"
    )
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
    add_flags(parser, ["metrics_address", "feeder_metrics_address", "spec"])


def run(arguments: argparse.Namespace) -> int:
    """Bring the road up, play, conclude, take it down."""
    configuration = configure(arguments)
    if configuration.kafka:
        raise UserError("the demo brings its own broker: take [kafka] out of the configuration")
    judging = _judging(arguments, configuration)
    java()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kipwatch-demo-") as folder:
        # What the processes of the road leave behind goes with the folder.
        os.environ["TMPDIR"] = folder
        return _run_in(Path(folder), arguments, configuration, judging)


def _run_in(
    folder: Path, arguments: argparse.Namespace, configuration: Configuration, judging: list[str]
) -> int:
    from streaming.demo.demo import Demo  # noqa: PLC0415  # only once Java is known to be there
    from streaming.demo.road import Road  # noqa: PLC0415
    from streaming.demo.screen import Screen  # noqa: PLC0415
    from streaming.feeder.capture import can_capture  # noqa: PLC0415

    captured = can_capture() and not arguments.relay
    screen = Screen(Console(highlight=False))
    keep = arguments.keep or arguments.observe
    try:
        with (
            observed(arguments.observe, configuration) as observers,
            Road(folder, captured, configuration, screen.say, judging) as road,
        ):
            demo = Demo(road, configuration, screen, captured)
            addresses = _addresses(configuration, observers)
            screen.say(addresses)
            try:
                demo.play(arguments.seconds)
                demo.drain(keep)
                succeeded = demo.conclude()
                _keep(road.recording, arguments.recording)
                screen.say(f"try `kipwatch check {arguments.recording}`: the recorded capture")
                if keep:
                    _wait(screen.say, addresses, road.watched)
            finally:
                demo.close()
    except KeyboardInterrupt:
        screen.say("interrupted: everything that was started is ended")
        raise
    screen.say("everything is ended; with --keep it stays until Ctrl-C")
    return FOUND if succeeded else NOT_FOUND


def _judging(arguments: argparse.Namespace, configuration: Configuration) -> list[str]:
    """Give the flags by which the query judges as the demo was told to. Raises UserError."""
    Decisions(configuration)
    named = ["--config", str(arguments.config)] if arguments.config else []
    return [*named, *(f"--spec={choice}" for choice in configuration.spec)]


def _addresses(configuration: Configuration, observers: dict[str, str]) -> str:
    pages = {
        "metrics of the query": f"http://{configuration.metrics_address}/metrics",
        "of the feeder": f"http://{configuration.feeder_metrics_address}/metrics",
        **observers,
    }
    return ", ".join(f"{name} {address}" for name, address in pages.items())


def _keep(recorded: Path, wanted: Path) -> None:
    try:
        shutil.copyfile(recorded, wanted)
    except OSError as error:
        raise UserError(
            f"cannot keep the recording as {wanted}: {error.strerror}; use --recording FILE"
        ) from error


def _wait(say: Callable[[str], None], addresses: str, watched: str) -> None:
    say(f"still running: a broker that is watched at {watched}; {addresses}")
    say("Ctrl-C ends everything")
    while True:
        time.sleep(1)
