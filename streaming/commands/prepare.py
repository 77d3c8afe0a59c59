"""`kipwatch prepare`: fetch jars and compile, so that a first start needs no network and compiles nothing."""

from __future__ import annotations

import argparse
from functools import partial
from importlib.util import find_spec

from streaming.broker.jars import jars
from streaming.feeder.feeder import Feeder
from streaming.settings.configuration import Configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has no flags."""


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
    return 0
