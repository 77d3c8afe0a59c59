"""`kipwatch completion`: print what a shell needs to complete commands and flags."""

from __future__ import annotations

import argparse
import importlib

import shtab

from streaming.commands.main import COMMANDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell to print it for")


def run(arguments: argparse.Namespace) -> int:
    """Print the script. Files complete where an argument is a path."""
    print(shtab.complete(_parser(), arguments.shell))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kipwatch")
    parser.add_argument("--version", action="store_true", help="show the version")
    commands = parser.add_subparsers()
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose)
        importlib.import_module(f"streaming.commands.{name}").add_arguments(command)
        for action in command._actions:
            if action.metavar in ("FILE", "FOLDER"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return parser
