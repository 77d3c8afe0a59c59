"""`kipwatch feed`: capture packets and publish frames, until told to stop or the source ends."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from decoders.wire.packet import Packet
from streaming.configuration import Configuration, add_flags, configure
from streaming.failure import UserError
from streaming.feeder.capture import CaptureError, InterfaceCapture
from streaming.feeder.feeder import Feeder, open_save
from streaming.feeder.source import open_capture, run_of_file, standard_input

SETTINGS = (
    "bootstrap",
    "frames_topic",
    "interface",
    "ports",
    "cluster",
    "feeder",
    "feeder_metrics_address",
)
BATCH = 1_000
POLL_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "source", nargs="?", metavar="FILE", help="a pcap file, or - for standard input; else the interface"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep what is captured in this pcap file")
    add_flags(parser, SETTINGS)


def run(arguments: argparse.Namespace) -> int:
    """Feed from the source named."""
    configuration = configure(arguments)
    if arguments.save and _is_source(arguments.save, arguments.source):
        raise UserError(f"--save would overwrite {arguments.save}, which is to be fed; name another file")
    with ExitStack() as stack:
        save = stack.enter_context(open_save(arguments.save)) if arguments.save else None
        if arguments.source is None:
            _feed_interface(stack, Feeder(configuration, time.time_ns(), save), configuration)
        elif arguments.source == "-":
            packets = iter(stack.enter_context(standard_input()))
            # Each at once: on a pipe nobody knows when the next one comes.
            _feed(Feeder(configuration, time.time_ns(), save), ([packet] for packet in packets))
        else:
            path = Path(arguments.source)
            packets = iter(stack.enter_context(open_capture(path)))
            _feed(Feeder(configuration, run_of_file(path), save), _in_batches(packets))
    return 0


def _is_source(path: Path, source: str | None) -> bool:
    return source is not None and path.exists() and Path(source).exists() and path.samefile(source)


def _feed_interface(stack: ExitStack, feeder: Feeder, configuration: Configuration) -> None:
    _stop_on_signals(feeder)
    try:
        capture = stack.enter_context(InterfaceCapture(configuration.interface, configuration.ports))
        feeder.run(_polls(capture), lambda: capture.dropped)
    except CaptureError as error:
        raise UserError(str(error)) from error


def _polls(capture: InterfaceCapture) -> Iterator[list[Packet]]:
    while True:
        yield capture.packets(POLL_SECONDS)


def _feed(feeder: Feeder, batches: Iterator[list[Packet]]) -> None:
    _stop_on_signals(feeder)
    feeder.run(batches)


def _stop_on_signals(feeder: Feeder) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: feeder.stop())


def _in_batches(packets: Iterator[Packet]) -> Iterator[list[Packet]]:
    while batch := list(islice(packets, BATCH)):
        yield batch
