"""`kipwatch prepare`: fetch jars and compile, so that a first start needs no network and compiles nothing."""

from __future__ import annotations

import argparse
from functools import partial
from importlib.util import find_spec

from expectations.conversation.columnar.window_columns import WindowColumns
from expectations.judging.automaton import Automaton
from expectations.judging.judge import Judge
from streaming.broker.jars import jars
from streaming.feeder.feeder import Feeder
from streaming.judging.bucket_input import BucketInput, PackedWindows, pack_input, unpack_input
from streaming.judging.step import BucketStep
from streaming.settings.configuration import Configuration
from streaming.state.bucket import Bucket


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
    Feeder(Configuration(), run=0)
    _step_nothing()
    return 0


def _step_nothing() -> None:
    """Step an empty bucket as the query does, which compiles the walk of the automaton."""
    judge = Judge({})
    step = BucketStep(judge, {}, automaton=Automaton(judge, bytes(16)))
    nothing = pack_input(BucketInput(PackedWindows.of(WindowColumns.of([]))))
    step.process(0, Bucket(), [unpack_input(nothing).columns()])
