"""`kipwatch run`: run the streaming query until a signal."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from expectations.rules.catalogue import REFUSED_PACKS
from streaming.broker.jars import java
from streaming.log import QUERY_LOG, configure_log
from streaming.observe import add_observe_flag, observed
from streaming.process import interrupt_held
from streaming.settings.checkpoint_folder import held_checkpoint
from streaming.settings.configuration import Configuration, add_flags, configure
from streaming.settings.decisions import Decisions
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

SETTINGS = (
    "bootstrap",
    "allow_watched_bootstrap",
    "frames_topic",
    "findings_topic",
    "quarantine_topic",
    "metrics_address",
    "checkpoint",
    "archive",
    "policies",
    "owners",
    "buckets",
    "shuffle_partitions",
    "trigger_seconds",
    "frames_per_batch",
    "after_loss",
    "master",
    "schemas",
    "spec",
    "label_limit",
    "log_level",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_observe_flag(parser)
    add_flags(parser, SETTINGS)
    parser.add_argument(
        "--dry-run", action="store_true", help="print the effective configuration and Spark's plan, then exit"
    )


def refuse_watched_bootstrap(configuration: Configuration) -> None:
    """Raise UserError if the feeder of the same configuration would capture what the query fetches."""
    if configuration.allow_watched_bootstrap:
        return
    watched = set(map(str, configuration.ports))
    for broker in configuration.bootstrap.split(","):
        port = broker.rpartition(":")[2].strip()
        if port in watched or not watched:
            raise UserError(
                f"the query reads at {broker.strip()}, and the feeder of this configuration watches "
                f"port {port}: each fetch would become more frames. Name a listener that is not watched as "
                "`bootstrap`, or exclude the query's address from the capture ([[exclude]]) and set "
                "`allow_watched_bootstrap`"
            )


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, or show the plan."""
    # Until the application can read its decisions again: they are about to be read.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    configuration = configure(arguments)
    configure_log(configuration.log_level)
    for warning in Decisions(configuration).expired():
        print(f"kipwatch: {warning}", file=sys.stderr)
    if arguments.config and not arguments.dry_run:
        refuse_watched_bootstrap(configuration)
    # Report mistakes before anything is loaded.
    load_schemas(configuration.schemas)
    _refuse_policies(configuration.policies)
    java()
    if arguments.dry_run:
        from streaming.query.query import show_plan  # noqa: PLC0415  # as below

        show_plan(configuration)
        return 0
    with held_checkpoint(configuration) as has_checkpoint:
        _run_query(configuration, arguments, has_checkpoint)
    return 0


def _refuse_policies(path: str) -> None:
    """Raise UserError if policies cannot be read. The validator would report that only after minutes."""
    if not path:
        return
    if find_spec("great_expectations") is None:
        raise UserError("policies need the extra [audit]: pip install 'kipwatch[audit]'")
    from streaming.audit.audit import policies_of  # noqa: PLC0415  # Great Expectations takes seconds to load

    policies_of(Path(path))


def _run_query(
    configuration: Configuration, arguments: argparse.Namespace, has_checkpoint: Callable[[], bool]
) -> None:
    for package, line in REFUSED_PACKS.items():
        QUERY_LOG.error("pack-refused", pack=package, line=line)
    QUERY_LOG.info("loading")
    with interrupt_held():
        from streaming.query.application import Application  # noqa: PLC0415  # Spark takes seconds to load

    application = Application(configuration, lambda: configure(arguments), has_checkpoint)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: application.stop())
    signal.signal(signal.SIGHUP, lambda *_: application.reload())
    with observed(arguments.observe, configuration) as addresses:
        if addresses:
            QUERY_LOG.info("observed", **addresses)
        application.run()
