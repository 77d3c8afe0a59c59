"""`kipwatch prepare`: fetch jars and compile, so that a first start needs no network and compiles nothing."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from decoders.schema.registry import default_schemas
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from streaming.broker.jars import jars


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define no flags."""


def run(arguments: argparse.Namespace) -> int:
    """Fill the user cache with what is missing. Raises UserError if that fails."""
    say = partial(print, flush=True)
    if find_spec("pyspark") is None:
        say("kipwatch: the query is not installed, so no jars are fetched; kipwatch[run] has it")
    else:
        say("kipwatch: looking for Kafka's and Spark's jars in the user cache; missing ones are downloaded")
        jars("connector", say)
    say(
        "kipwatch: compiling into the user cache; this takes a minute the first time, and a second afterwards"
    )
    _compile()
    return 0


def _compile() -> None:
    """Compile what reads frames in a process beside this one, which compiles what follows packets.

    Each is half of the work. Other modules import the first, so importing them compiles it too. Ctrl-C kills
    both: llvmlite drops an exception that is raised while it calls Python.
    """
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    reading = multiprocessing.get_context("spawn").Process(target=_compile_reading)
    reading.start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    tracker = ColumnarTracker(default_schemas(), ports=(), run=0, secret=bytes(16))
    tracker.feed(PacketBatch.of([]))
    reading.join()
    import_module("streaming.first_calls").call_all()
    signal.signal(signal.SIGINT, former)


def _compile_reading() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Until now it ignored Ctrl-C, as this process did when it was started.
    parent = multiprocessing.parent_process()
    if parent is not None and parent.is_alive():
        import_module("decoders.codec.columnar.kernel")
