"""`kipwatch doctor`: what this machine can do, and how to get what is missing."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

from streaming.broker.jars import jars
from streaming.broker.java import java
from streaming.feeder.capture import can_capture
from streaming.user_error import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no flags."""


def run(arguments: argparse.Namespace) -> int:
    """Check each need; 0 when nothing that kipwatch cannot do without is missing."""
    console = Console(highlight=False)
    needs = [_told(console, name, ask) for name, ask in _NEEDS.items()]
    for name, ask in _WISHES.items():
        _told(console, name, ask)
    return 0 if all(needs) else 1


def _told(console: Console, name: str, ask: Callable[[], str]) -> bool:
    try:
        console.print(f"[green]yes[/]  {name}: {escape(ask())}", soft_wrap=True)
    except UserError as error:
        console.print(f"[yellow]no[/]   {name}: {escape(str(error))}", soft_wrap=True)
        return False
    return True


def _python() -> str:
    return sys.version.split()[0]


def _jars() -> str:
    return f"{len(jars('broker')) + len(jars('connector'))} in the cache"


def _capture() -> str:
    if not can_capture():
        raise UserError("the right CAP_NET_RAW is missing; the demo records by relays instead")
    return "allowed"


def _promtool() -> str:
    path = shutil.which("promtool")
    if path is None:
        raise UserError("tests of the alerts need it: apt-get install prometheus")
    return path


_NEEDS: dict[str, Callable[[], str]] = {"Python": _python, "Java": lambda: str(java()), "jars": _jars}
_WISHES: dict[str, Callable[[], str]] = {"packet capture": _capture, "promtool": _promtool}
