"""`kipwatch init`: write the configuration of the feeders and of the query for a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from streaming.broker.cluster import ask_cluster
from streaming.settings.address import bootstrap_addresses
from streaming.settings.confidential import open_private
from streaming.settings.configuration import add_flags, configure
from streaming.starter import Plan, address_towards, feeder_file, interfaces_with, plan, query_file, resolved
from streaming.user_error import UserError

FEEDER, QUERY = "feeder.toml", "query.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_flags(parser, ["bootstrap"])
    parser.add_argument(
        "--folder", type=Path, default=Path(), metavar="FOLDER", help="where to write (default: here)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask the cluster and write both files. Raises UserError if one exists or Kafka cannot be reached."""
    configuration = configure(arguments)
    files = [arguments.folder / name for name in (FEEDER, QUERY)]
    for file in files:
        if file.exists():
            raise UserError(f"{file} exists: remove it, or name another folder by --folder")
    bootstrap, kafka = configuration.bootstrap, configuration.kafka
    chosen = plan(bootstrap, ask_cluster(bootstrap, kafka), resolved)
    interfaces = interfaces_with(chosen.addresses)
    # Excluding the host of a broker would hide all of its traffic.
    own = None if interfaces else address_towards(*bootstrap_addresses(bootstrap)[0])
    texts = (
        feeder_file(chosen, kafka, interfaces, own),
        query_file(chosen, kafka, (arguments.folder / "checkpoint").resolve(), own),
    )
    for file, text in zip(files, texts, strict=True):
        _write(file, text)
    _explain(chosen, files, own)
    return 0


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # The table [kafka] may hold a password.
        with open_private(file) as stream:
            stream.write(text.encode())
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error


def _explain(chosen: Plan, files: list[Path], query_host: str | None) -> None:
    feeder, query = files
    brokers = {listener.node_id for listener in chosen.listeners}
    ports = ", ".join(map(str, chosen.ports))
    count = "1 broker" if len(brokers) == 1 else f"{len(brokers)} brokers"
    print(f"cluster {chosen.cluster_id}, {count}; watched ports: {ports}")
    for port in chosen.encrypted:
        print(f"port {port} carries TLS and is not watched; with a key log it can be: see docs/tls.md")
    if chosen.is_own_watched and query_host:
        print(f"kipwatch's own topics are on a watched listener: run the query on this host, {query_host},")
        print("which the feeders exclude")
    elif chosen.is_own_watched:
        print("kipwatch's own topics are on a watched listener: the query refuses to run until the feeders")
        print(f"exclude its host; see the end of {feeder}")
    print(f"\n1. read {feeder} and {query}")
    print(f"2. kipwatch run --config {query}")
    print(f"3. on the host of each broker: kipwatch feed --config {feeder}")
