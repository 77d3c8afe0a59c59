"""`kipwatch demo`: run all of kipwatch on real traffic."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from streaming.broker.jars import java
from streaming.broker.ports import HOST, free_ports
from streaming.observe import add_observe_flag, observed
from streaming.process import interrupt_held
from streaming.settings.confidential import open_private
from streaming.settings.configuration import Configuration, add_flags, configure
from streaming.settings.decisions import Decisions
from streaming.user_error import UserError

if TYPE_CHECKING:
    from streaming.demo.demo import Demo
    from streaming.demo.road import Road

FOUND, NOT_FOUND = 0, 1
KEPT = "still running, until Ctrl-C; findings of your own clients are shown here as they come"
REST = "every finding, and how often each rule judged, from the recorded capture"
LOADING = "loading kipwatch; the first run of a version compiles for a minute"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=float,
        help="end the clients after so many seconds, even if they are not done",
    )
    parser.add_argument(
        "--keep",
        dest="stays",
        action="store_true",
        help="leave everything running until Ctrl-C, as --observe does",
    )
    parser.add_argument(
        "--relay", action="store_true", help="record by relays even if capturing is permitted"
    )
    parser.add_argument(
        "--tls", action="store_true", help="let the clients speak TLS, which is read with a key log"
    )
    parser.add_argument(
        "--recording",
        type=Path,
        default=Path("kipwatch-demo.pcap"),
        metavar="FILE",
        help="file for the recorded capture (default: %(default)s)",
    )
    add_observe_flag(parser)
    addresses = dict.fromkeys(("metrics_address", "feeder_metrics_address"), "a free port of this machine")
    add_flags(parser, [*addresses, "spec"], addresses)


def run(arguments: argparse.Namespace) -> int:
    """Start everything, run the clients, compare the findings with the plan, end everything."""
    configuration = with_free_ports(configure(arguments), arguments)
    if configuration.kafka:
        raise UserError("the demo starts its own broker: remove [kafka] from the configuration")
    if not arguments.recording.parent.is_dir():
        raise UserError(f"cannot write the recording: there is no folder {arguments.recording.parent}")
    judging = _judging_flags(arguments, configuration)
    java()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="kipwatch-demo-") as folder:
        # All processes keep their temporary files in the folder, and so remove them with it.
        os.environ["TMPDIR"] = folder
        return _run_in(Path(folder), arguments, configuration, judging)


def _run_in(
    folder: Path, arguments: argparse.Namespace, configuration: Configuration, judging: list[str]
) -> int:
    Console(highlight=False).print(LOADING)
    with interrupt_held():
        from streaming.demo.demo import Demo  # noqa: PLC0415  # only when Java is found
        from streaming.demo.road import Road  # noqa: PLC0415
        from streaming.demo.screen import Screen  # noqa: PLC0415
        from streaming.feeder.capture import can_capture  # noqa: PLC0415

    captured = can_capture() and not arguments.relay
    if arguments.tls and not captured:
        raise UserError("--tls needs a capture: run it as root or with CAP_NET_RAW, and without --relay")
    screen = Screen(Console(highlight=False))
    keep = arguments.stays or arguments.observe
    try:
        with (
            observed(arguments.observe, configuration) as observers,
            Road(folder, captured, configuration, screen.say, judging, encrypt=arguments.tls) as road,
        ):
            demo = Demo(road, configuration, screen, captured)
            addresses = _addresses(road, configuration, observers)
            screen.addresses("everything is started, at free ports of this machine:", addresses)
            try:
                succeeded = _play(demo, arguments, keep)
                screen.say(f"{REST}: `{_keep(road, arguments.recording)}`")
                if keep:
                    screen.addresses(KEPT, addresses)
                    demo.watch()
            except UserError as error:
                raise _with_recording(error, demo, road, arguments.recording) from error
            finally:
                demo.close()
    except KeyboardInterrupt:
        screen.say("interrupted: all processes are ended")
        raise
    screen.say("all processes are ended; --keep leaves them running until Ctrl-C")
    return FOUND if succeeded else NOT_FOUND


def _play(demo: Demo, arguments: argparse.Namespace, keep: bool) -> bool:
    demo.play(arguments.seconds)
    demo.drain(keep)
    return demo.conclude()


def _with_recording(error: UserError, demo: Demo, road: Road, wanted: Path) -> UserError:
    """Show what was found until the error, save the recording, and say how to go on."""
    demo.show_findings()
    road.end_feeding()
    if not road.recording.exists():
        return error
    return UserError(f"{error}. The capture is saved: `{_keep(road, wanted)}` judges it without Spark")


def with_free_ports(configuration: Configuration, flags: argparse.Namespace) -> Configuration:
    """Replace default addresses of the metrics pages, which may be in use, by free ports."""
    names = ("metrics_address", "feeder_metrics_address")
    defaults = Configuration()
    chosen = {
        name: f"{HOST}:{port}"
        for name, port in zip(names, free_ports(len(names)), strict=True)
        if getattr(flags, name) is None and getattr(configuration, name) == getattr(defaults, name)
    }
    return msgspec.structs.replace(configuration, **chosen)


def _judging_flags(arguments: argparse.Namespace, configuration: Configuration) -> list[str]:
    """Return the flags that pass the demo's decisions on to the query. Raises UserError."""
    Decisions(configuration)  # to fail early
    named = ["--config", str(arguments.config)] if arguments.config else []
    return [*named, *(f"--spec={choice}" for choice in configuration.spec)]


def _addresses(road: Road, configuration: Configuration, observers: Mapping[str, str]) -> dict[str, str]:
    host, port = road.front_address
    frames, findings = configuration.frames_topic, configuration.findings_topic
    reading = [*own_command(), "findings", "--bootstrap", road.internal]
    if findings != Configuration().findings_topic:
        reading += ["--findings-topic", findings]
    return {
        "page": f"http://{configuration.metrics_address}/ what is violated, and by whom",
        "watched broker": f"{road.watched} for clients of yours; a topic is created when it is first used",
        "front": f"{host}:{port} the same broker with KIP-1313, which no released broker has",
        "internal listener": f"{road.internal} the same broker, not watched; topics {frames} and {findings}",
        "metrics of the query": f"http://{configuration.metrics_address}/metrics",
        "metrics of the feeder": f"http://{configuration.feeder_metrics_address}/metrics",
        **observers,
        "read the findings": shlex.join(reading),
    }


def own_command() -> list[str]:
    """Return the start of command lines for the user to copy: how this program was called."""
    called = Path(sys.argv[0])
    return [str(called)] if called.name == "kipwatch" else [sys.executable, "-m", "kipwatch"]


def _keep(road: Road, wanted: Path) -> str:
    """Copy the recording, and its key log beside it, and return the command that judges them."""
    command = ["kipwatch", "check", str(wanted)]
    try:
        shutil.copyfile(road.recording, wanted)
        for key_log in road.key_logs:
            kept = wanted.with_suffix(".keys")
            with open_private(kept) as file:
                file.write(key_log.read_bytes())
            command += ["--tls-keylog", str(kept)]
    except OSError as error:
        raise UserError(
            f"cannot write the recording {wanted}: {error.strerror}; use --recording FILE"
        ) from error
    return shlex.join(command)
