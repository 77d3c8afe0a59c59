"""`kipwatch doctor`: what this machine can do, and how to install what is missing."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec

from rich.console import Console
from rich.markup import escape

from streaming.broker.jars import jars
from streaming.broker.java import java
from streaming.feeder.capture import can_capture
from streaming.user_error import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no flags."""


def run(arguments: argparse.Namespace) -> int:
    """Probe all requirements and options; returns 0 if all requirements are met."""
    console = Console(highlight=False)
    met = [_show(console, name, probe) for name, probe in _REQUIRED.items()]
    for name, probe in _OPTIONAL.items():
        _show(console, name, probe)
    return 0 if all(met) else 1


def _show(console: Console, name: str, probe: Callable[[], str]) -> bool:
    try:
        console.print(f"[green]yes[/]  {name}: {escape(probe())}", soft_wrap=True)
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
