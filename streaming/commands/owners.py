"""`kipwatch owners check FILE CAPTURE…`: the clients of captures by owner, and those without one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from itertools import groupby

from rich.console import Console
from rich.text import Text

from expectations.conversation.texts import printable
from expectations.report.client import client_text
from expectations.report.fleet import Party
from expectations.report.terminal import counted
from streaming.commands.check import INCOMPLETE, PASSED, SEE, add_capture_flags, check
from streaming.user_error import UserError

NOBODY = "nobody"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the flags."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action")
    checking = actions.add_parser("check", help="show whose the clients of captures are by a file of owners")
    checking.add_argument("owners", metavar="OWNERS", help="a TOML file of owners")
    add_capture_flags(checking, without=("owners",))


def run(arguments: argparse.Namespace) -> int:
    """Show the clients of the captures by owner. Returns 2 if no frame was found."""
    if arguments.action is None:
        raise UserError("owners needs an action: kipwatch owners check OWNERS CAPTURE…")
    checked = check(arguments)
    parties = checked.examination.parties
    console = Console(highlight=False)
    for owner, found in groupby(parties, key=lambda each: each[0].owner):
        _show(owner, found, console)
    owned = sum(party.owner is not None for party, _ in parties)
    console.print(f"{owned} of {counted(len(parties), 'client')} with an owner", soft_wrap=True)
    if not checked.summary.frames:
        print(f"kipwatch: no capture holds a Kafka frame; {SEE}", file=sys.stderr)
        return INCOMPLETE
    return PASSED


def _show(owner: str | None, found: Iterable[tuple[Party, int]], console: Console) -> None:
    console.print(Text(printable(owner or NOBODY), "bold" if owner else "bold yellow"))
    for party, connections in found:
        named = printable(client_text(party.software, party.client_id))
        user = f"  as {printable(party.principal)}" if party.principal else ""
        line = f"  {party.host}  {named}{user}  {counted(connections, 'connection')}"
        console.print(Text(line), soft_wrap=True)
    console.print()
