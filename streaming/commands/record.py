"""`kipwatch record -- COMMAND`: run a command behind relays, and check its traffic.

It serves authors of clients on machines where capturing is not permitted, or whose clients use TLS.
"""

from __future__ import annotations

import argparse
import os
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec

from decoders.schema.registry import Schemas
from expectations.report.duties import DutiesReport, DutyReport, DutyState, judged
from expectations.rules.base.rule import Role
from streaming.check.examination import Examination
from streaming.commands import check
from streaming.commands.probe import tell
from streaming.record.provocations import PROVOCATIONS, Begin, Provocation, Provoking
from streaming.record.relay import Encryption, Relays
from streaming.record.rewriting import Alter, unaltered
from streaming.settings.address import address_text, bootstrap_addresses
from streaming.settings.confidential import open_save
from streaming.settings.configuration import add_flags
from streaming.settings.release import load_schemas
from streaming.user_error import UserError, did_you_mean

SETTINGS = ("schemas", "spec")
BOOTSTRAP_VARIABLE, BOOTSTRAP_FIELD = "KIPWATCH_BOOTSTRAP", "{bootstrap}"
INCOMPLETE = 2

_NEEDED = (
    ("tls_key", "tls_certificate"),
    ("upstream_ca", "upstream_tls"),
    ("upstream_certificate", "upstream_tls"),
    ("upstream_key", "upstream_certificate"),
)
"""Flags of TLS, each with the flag that it requires."""


def _leave(_schemas: Schemas, _connection: int) -> Alter:
    return unaltered


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--provoke",
        default="",
        metavar="WHAT",
        help="alter what brokers say, and judge what the client does: all, or some, separated by commas, "
        f"of {', '.join(each.name for each in PROVOCATIONS)}",
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
    # What is wrong with the flags of the check is told before the command runs, which may take an hour.
    schemas = load_schemas(check.decided(_for_check(arguments, arguments.save))[0].schemas)
    if arguments.provoke:
        return _provoke(command, arguments, schemas)
    trouble, status = _recorded(command, arguments, schemas, arguments.save)
    if trouble:
        print(f"kipwatch: {trouble}", file=sys.stderr)
    checked = INCOMPLETE
    if arguments.json or not trouble:
        checked = _check(arguments)
    if status:
        print(f"kipwatch: the command ended with status {status}", file=sys.stderr)
        return INCOMPLETE
    return checked


def _recorded(
    command: list[str], arguments: argparse.Namespace, schemas: Schemas, save: Path, begin: Begin = _leave
) -> tuple[str, int]:
    """Run the command behind relays. Returns why nothing was recorded, or "", and the command's status."""
    with (
        open_save(save) as stream,
        Relays(schemas, stream, _encryption(arguments), partial(begin, schemas)) as relays,
    ):
        own = [relays.address_of(broker) for broker in bootstrap_addresses(arguments.bootstrap)]
        status = _run(command, ",".join(address_text(*address) for address in own))
    return relays.trouble, status


def _provoke(command: list[str], arguments: argparse.Namespace, schemas: Schemas) -> int:
    """Run the command once for each provocation, and judge the client each time."""
    for flag in ("jsonl", "quiet", "coverage", "evidence"):
        if getattr(arguments, flag):
            raise UserError(f"--{flag} is not for --provoke: run `kipwatch check` on what was saved")
    duties, requests = [], 0
    chosen = _chosen(arguments.provoke)
    for number, provocation in enumerate(chosen, 1):
        print(f"kipwatch: {number} of {len(chosen)}, {provocation.name}", file=sys.stderr)
        save = arguments.save.with_stem(f"{arguments.save.stem}-{provocation.name}")
        provoking = Provoking(provocation)
        trouble, status = _recorded(command, arguments, schemas, save, provoking.begin)
        if status:
            print(f"kipwatch: {provocation.name}: the command ended with status {status}", file=sys.stderr)
        examination = check.check(_for_check(arguments, save)).examination
        requests += sum(client.requests for client in examination.clients)
        duties.append(_judged(provoking, examination, trouble))
    saved = arguments.save.with_stem(f"{arguments.save.stem}-*")
    return tell(DutiesReport(arguments.bootstrap, str(saved), requests, duties), arguments)


def _chosen(names: str) -> list[Provocation]:
    by_name = {each.name: each for each in PROVOCATIONS}
    if names == "all":
        return list(PROVOCATIONS)
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in by_name:
            suggested = did_you_mean(name, by_name, f"choose all, or of {', '.join(by_name)}")
            raise UserError(f"--provoke {name}: there is no such provocation; {suggested}")
    return [by_name[name] for name in chosen]


def _judged(provoking: Provoking, examination: Examination, trouble: str) -> DutyReport:
    provocation = provoking.provocation
    unjudged = DutyReport(provocation.name, provocation.says, provocation.rules, DutyState.UNDECIDED)
    is_unmet = not trouble and not provoking.altered
    own = [row for row in examination.coverage if row.rule in provocation.rules]
    if not any(row.exercised or row.undecided for row in own):
        trouble = trouble or "the client did nothing that its rules judge"
    report = judged(unjudged, Role.CLIENT, examination.findings, examination.coverage, trouble)
    if is_unmet and report.state is not DutyState.VIOLATES:
        why = "the client asked nothing whose response it alters"
        return msgspec.structs.replace(report, state=DutyState.NOT_OFFERED, why=why)
    return report


def _run(command: list[str], bootstrap: str) -> int:
    filled = [word.replace(BOOTSTRAP_FIELD, bootstrap) for word in command]
    try:
        return subprocess.run(
            filled, env={**os.environ, BOOTSTRAP_VARIABLE: bootstrap}, check=False
        ).returncode
    except OSError as error:
        raise UserError(f"cannot run {filled[0]}: {error.strerror}") from error


def _check(arguments: argparse.Namespace) -> int:
    """Judge the recording as `check` does with the same flags."""
    return check.run(_for_check(arguments, arguments.save))


def _for_check(arguments: argparse.Namespace, save: Path) -> argparse.Namespace:
    return argparse.Namespace(**{"files": [save], "ports": "", **vars(arguments)})


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
