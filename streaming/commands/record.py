"""`kipwatch record -- COMMAND`: run a command behind relays, and check its traffic.

It serves authors of clients on machines where capturing is not permitted, or whose clients use TLS.
"""

from __future__ import annotations

import argparse
import os
import ssl
import subprocess
import sys
from pathlib import Path

from streaming.commands import check
from streaming.feeder.feeder import open_save
from streaming.feeder.relay import Encryption
from streaming.record.relays import Relays
from streaming.settings.address import address_text, bootstrap_addresses
from streaming.settings.configuration import add_flags
from streaming.settings.release import load_schemas
from streaming.user_error import UserError

SETTINGS = ("schemas", "spec")
BOOTSTRAP_VARIABLE, BOOTSTRAP_FIELD = "KIPWATCH_BOOTSTRAP", "{bootstrap}"
INCOMPLETE = 2

_NEEDED = (
    ("tls_key", "tls_certificate"),
    ("upstream_ca", "upstream_tls"),
    ("upstream_certificate", "upstream_tls"),
    ("upstream_key", "upstream_certificate"),
)
"""Flags of TLS, each with the one that it is of no use without."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the flags."""
    parser.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="the brokers, separated by commas"
    )
    parser.add_argument(
        "--save",
        type=Path,
        default=Path("kipwatch-record.pcap"),
        metavar="FILE",
        help="pcap file for the traffic, passwords included, readable by you only (default: %(default)s)",
    )
    check.add_report_flags(parser)
    add_flags(parser, SETTINGS)
    parser.add_argument(
        "--tls-certificate",
        type=Path,
        metavar="FILE",
        help="accept TLS from the client with this certificate",
    )
    parser.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="key of the certificate, if in a separate file"
    )
    parser.add_argument("--upstream-tls", action="store_true", help="connect to the brokers by TLS")
    parser.add_argument("--upstream-ca", type=Path, metavar="FILE", help="CA certificates of the brokers")
    parser.add_argument(
        "--upstream-certificate",
        type=Path,
        metavar="FILE",
        help="show this certificate to brokers that demand one",
    )
    parser.add_argument(
        "--upstream-key", type=Path, metavar="FILE", help="key of that certificate, if in a separate file"
    )
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND",
        help=f"the command; {BOOTSTRAP_FIELD} in it and ${BOOTSTRAP_VARIABLE} are the relays' addresses",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command and check its traffic. Returns 2 if the command failed, else the status of `check`."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UserError(
            "name the command to run behind the relays: kipwatch record --bootstrap HOST:PORT -- COMMAND"
        )
    brokers = bootstrap_addresses(arguments.bootstrap)
    encryption = _encryption(arguments)
    with (
        open_save(arguments.save) as stream,
        Relays(load_schemas(arguments.schemas or ""), stream, encryption) as relays,
    ):
        own = [relays.address_of(broker) for broker in brokers]
        status = _run(command, ",".join(address_text(*address) for address in own))
    trouble = relays.trouble
    if trouble:
        print(f"kipwatch: {trouble}", file=sys.stderr)
    checked = INCOMPLETE
    if arguments.json or not trouble:
        checked = _check(arguments)
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


def _check(arguments: argparse.Namespace) -> int:
    """Judge what was recorded, as `check` does with the same flags."""
    unset = dict.fromkeys(check.SETTINGS)
    own = {"files": [arguments.save], "ports": "", **unset, **vars(arguments)}
    return check.run(argparse.Namespace(**own))


def _encryption(arguments: argparse.Namespace) -> Encryption:
    """Read the files of TLS. Raises UserError if one cannot be used."""
    for needing, needed in _NEEDED:
        if getattr(arguments, needing) and not getattr(arguments, needed):
            raise UserError(f"--{needing.replace('_', '-')} needs --{needed.replace('_', '-')}")
    downstream = upstream = None
    try:
        if arguments.tls_certificate:
            downstream = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            downstream.load_cert_chain(arguments.tls_certificate, arguments.tls_key)
        if arguments.upstream_tls:
            upstream = ssl.create_default_context(cafile=arguments.upstream_ca)
        if upstream and arguments.upstream_certificate:
            upstream.load_cert_chain(arguments.upstream_certificate, arguments.upstream_key)
    except OSError as error:
        raise UserError(f"cannot use the TLS files: {error.strerror or error}") from error
    return Encryption(downstream, upstream)
