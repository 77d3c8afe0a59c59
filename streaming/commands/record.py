"""`kipwatch record -- COMMAND`: run a command behind relays, and check what passed.

For authors of clients whose laptop or CI has no right to capture and, ending TLS here, for those who may.
"""

from __future__ import annotations

import argparse
import os
import ssl
import subprocess
import sys
from pathlib import Path

from decoders.schema.registry import Schemas
from streaming.commands import check
from streaming.feeder.feeder import open_save
from streaming.feeder.relay import Encryption
from streaming.record.relays import Relays
from streaming.settings.configuration import host_and_port
from streaming.user_error import UserError

BOOTSTRAP_VARIABLE, BOOTSTRAP_FIELD = "KIPWATCH_BOOTSTRAP", "{bootstrap}"
INCOMPLETE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="the real brokers, separated by commas"
    )
    parser.add_argument(
        "--save",
        type=Path,
        default=Path("kipwatch-record.pcap"),
        metavar="FILE",
        help="pcap file that takes what passes (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the check as one JSON object")
    parser.add_argument(
        "--tls-certificate",
        type=Path,
        metavar="FILE",
        help="end the client's TLS here, with this certificate",
    )
    parser.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="the certificate's key, if in its own file"
    )
    parser.add_argument("--upstream-tls", action="store_true", help="speak TLS to the brokers")
    parser.add_argument(
        "--upstream-ca", type=Path, metavar="FILE", help="who signed the brokers' certificates"
    )
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help=f"what to run; {BOOTSTRAP_FIELD} in it, and ${BOOTSTRAP_VARIABLE}, are the relays' addresses",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command, then judge what it said. Status 2 when the command failed, else that of `check`."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UserError(
            "name the command to run behind the relays: kipwatch record --bootstrap H:P -- COMMAND"
        )
    brokers = [host_and_port(address.strip()) for address in arguments.bootstrap.split(",")]
    encryption = _encryption(arguments)
    with (
        open_save(arguments.save) as stream,
        Relays(Schemas.load(), stream, encryption) as relays,
    ):
        own = [relays.address_of(broker) for broker in brokers]
        status = _run(command, ",".join(f"{host}:{port}" for host, port in own))
    checked = _check(arguments.save, as_json=arguments.json)
    if status:
        print(f"kipwatch: the command ended with status {status}", file=sys.stderr)
        return INCOMPLETE
    return checked


def _run(command: list[str], bootstrap: str) -> int:
    filled = [word.replace(BOOTSTRAP_FIELD, bootstrap) for word in command]
    try:
        return subprocess.run(
            filled, env={**os.environ, BOOTSTRAP_VARIABLE: bootstrap}, check=False
        ).returncode
    except OSError as error:
        raise UserError(f"cannot run {filled[0]}: {error.strerror}") from error


def _check(capture: Path, *, as_json: bool) -> int:
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    return check.run(parser.parse_args([str(capture), *(["--json"] if as_json else [])]))


def _encryption(arguments: argparse.Namespace) -> Encryption:
    """Read the files of TLS. Raises UserError when one cannot be used."""
    if arguments.tls_key and not arguments.tls_certificate:
        raise UserError("--tls-key is of no use without --tls-certificate")
    if arguments.upstream_ca and not arguments.upstream_tls:
        raise UserError("--upstream-ca is of no use without --upstream-tls")
    downstream = upstream = None
    try:
        if arguments.tls_certificate:
            downstream = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            downstream.load_cert_chain(arguments.tls_certificate, arguments.tls_key)
        if arguments.upstream_tls:
            upstream = ssl.create_default_context(cafile=arguments.upstream_ca)
    except OSError as error:
        raise UserError(f"the files of TLS cannot be used: {error.strerror or error}") from error
    return Encryption(downstream, upstream)
