"""`kipwatch doctor`: what this machine can do or what a configuration lacks, and what to do about it."""

from __future__ import annotations

import argparse
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from confluent_kafka.admin import AclOperation
from rich.console import Console
from rich.markup import escape

from streaming.broker.jars import jars, java
from streaming.commands import feed
from streaming.commands import run as run_command
from streaming.doctor import Answer, Diagnosis, examine
from streaming.doctor.kafka import KafkaDoctor, TopicUse, findings_use, frames_use, quarantine_use
from streaming.doctor.machine import capture_right, checkpoint, clock, feeder_user, interface, watched_ports
from streaming.feeder.capture import can_capture
from streaming.feeder.pod_watch import ApiServer, PodWatch
from streaming.settings.configuration import Configuration, configure
from streaming.settings.kafka_client import jvm_options
from streaming.user_error import UserError

_OF_FEEDER = {*feed.SETTINGS, "exclude"} - {*run_command.SETTINGS, "ports"}
"""Settings that only the feeder reads. The query reads `ports` to know what is watched."""
_OF_QUERY = {*run_command.SETTINGS} - {*feed.SETTINGS}
_COLOURS = {Answer.YES: "green", Answer.NOTE: "cyan", Answer.NO: "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="examine what this configuration of feeder or query needs"
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine this machine, or what a configuration needs. Returns 0 if all requirements are met."""
    console = Console(highlight=False)
    if arguments.config:
        return _examine(console, arguments)
    met = [_show(console, examine(name, probe)) for name, probe in _REQUIRED.items()]
    for name, probe in _OPTIONAL.items():
        _show(console, examine(name, probe))
    return 0 if all(met) else 1


def _examine(console: Console, arguments: argparse.Namespace) -> int:
    """Examine what the processes of a configuration need, each line as soon as it is known."""
    configuration = configure(arguments)
    feeder, query = _processes(arguments.config)
    processes = [name for name, is_meant in (("feeder", feeder), ("query", query)) if is_meant]
    console.print(f"{escape(str(arguments.config))}: {' and '.join(processes)}", soft_wrap=True)
    if query and not _HAS_SPARK:
        _show(console, examine("Spark", _spark))
        return 1
    found = examination(configuration, feeder=feeder, query=query)
    if query:
        found = chain([examine("bootstrap", lambda: _unwatched(configuration))], found)
    # A list, so that every line is shown, also after a failure.
    are_met = [_show(console, each) for each in found]
    return 0 if all(are_met) else 1


def examination(configuration: Configuration, *, feeder: bool, query: bool) -> Iterator[Diagnosis]:
    """Examine what feeder or query need of a configuration, in order.

    Yields each diagnosis as soon as it is known: capturing takes some seconds, and Kafka may take some.
    """
    if query:
        yield from _for_query(configuration)
    yield clock()
    if feeder:
        yield from _for_feeder(configuration)
    yield from _of_kafka(configuration, feeder=feeder, query=query)


def _for_query(configuration: Configuration) -> Iterator[Diagnosis]:
    yield examine("Java", lambda: str(java()))
    yield examine("jars", lambda: f"{len(jars('connector'))} in the cache")
    yield examine("Spark's login to Kafka", lambda: _login_of_spark(configuration))
    yield checkpoint(configuration)


def _login_of_spark(configuration: Configuration) -> str:
    protocol = jvm_options(configuration.bootstrap, configuration.kafka).get("kafka.security.protocol")
    return f"by {protocol or 'PLAINTEXT'}"


def _for_feeder(configuration: Configuration) -> Iterator[Diagnosis]:
    if configuration.user:
        yield feeder_user(configuration.user)
    if configuration.kubernetes:
        yield examine("Kubernetes", _pods)
    found = [capture_right(), *map(interface, configuration.interface)]
    yield from found
    if all(each.answer is Answer.YES for each in found):
        yield from watched_ports(configuration)


def _pods() -> str:
    watch = PodWatch(ApiServer.of_this_pod())
    watch.list_once()
    return f"pods may be listed and have {len(watch.addresses)} addresses"


def _of_kafka(configuration: Configuration, *, feeder: bool, query: bool) -> Iterator[Diagnosis]:
    try:
        kafka = KafkaDoctor(configuration)
    except UserError as error:
        yield Diagnosis(Answer.NO, "Kafka", str(error))
        return
    reached = kafka.reach()
    yield reached
    if reached.answer is not Answer.NO:
        for use in _uses(configuration, feeder=feeder, query=query):
            yield from kafka.topic(use)


def _uses(configuration: Configuration, *, feeder: bool, query: bool) -> Iterator[TopicUse]:
    if feeder:
        yield frames_use(configuration, AclOperation.WRITE)
    if query:
        yield frames_use(configuration, AclOperation.READ)
        yield findings_use(configuration)
        yield quarantine_use(configuration)


def _unwatched(configuration: Configuration) -> str:
    run_command.refuse_watched_bootstrap(configuration)
    return "the query does not read from a watched port, or is permitted to"


def _processes(config: Path) -> tuple[bool, bool]:
    """Return whether a file is for the feeder and for the query; for both if it has no setting of either."""
    settings = tomllib.loads(config.read_text()).keys()
    feeder = bool(settings & _OF_FEEDER)
    query = bool(settings & _OF_QUERY)
    return feeder or not query, query or not feeder


def _show(console: Console, found: Diagnosis) -> bool:
    """Print a line. Returns whether it is no failure."""
    coloured = f"[{_COLOURS[found.answer]}]{found.answer:<4}[/]"
    console.print(f"{coloured} {escape(found.name)}: {escape(found.detail)}", soft_wrap=True)
    return found.answer is not Answer.NO


def _python() -> str:
    return sys.version.split()[0]


def _jars() -> str:
    return f"{len(jars('broker')) + len(jars('connector'))} in the cache"


def _capture() -> str:
    if not can_capture():
        raise UserError("the capability CAP_NET_RAW is missing; the demo records by relays instead")
    return "permitted"


def _promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        raise UserError("tests of the alerts need it: apt-get install prometheus")
    return path


def _spark() -> str:
    raise UserError("`kipwatch run` and `demo` need it, and Java: pip install 'kipwatch[run]'")


_HAS_SPARK = find_spec("pyspark") is not None
_OF_SPARK: dict[str, Callable[[], str]] = {"Java": lambda: str(java()), "jars": _jars}
_REQUIRED: dict[str, Callable[[], str]] = {"Python": _python, **(_OF_SPARK if _HAS_SPARK else {})}
_OPTIONAL: dict[str, Callable[[], str]] = {
    **({} if _HAS_SPARK else {"Spark": _spark}),
    "packet capture": _capture,
    "promtool": _promtool,
}
