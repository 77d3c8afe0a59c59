"""The command line. It imports a command's modules only when the command runs: `check` loads no Spark."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from streaming.process import discard_output, interrupt_held, make_collections_rare, reader_may_leave
from streaming.user_error import UserError, did_you_mean

COMMANDS = {
    "demo": "run all of kipwatch on real traffic and show what it finds",
    "check": "judge captures without Spark or Java",
    "decode": "show every frame of a capture",
    "record": "run a command behind relays, save its traffic to a file and check it",
    "probe": "ask a broker under test for each duty of a broker, and judge how it responds",
    "init": "write the configuration for a cluster of your own",
    "feed": "capture packets and publish frames to Kafka",
    "run": "run the streaming query: decode, judge, publish findings and metrics",
    "findings": "show the findings of a running query as they come",
    "report": "show client software by rule, what brokers advertise, and who breaks on an upgrade",
    "owners": "show whose the clients of captures are, by a file of owners",
    "rules": "list the rules, or explain one",
    "audit": "validate the frames topic with its Great Expectations suite",
    "schemas": "list Kafka's message schemas, compare releases, check a draft, or read a kafka-clients jar",
    "draft": "show what a draft of messages changes, its frames, and whom it touches in captures",
    "bench": "measure a part of kipwatch, compared with other tools where possible",
    "doctor": "show what this machine, or a configuration, can do and what is missing",
    "prepare": "fetch jars and compile, so that a first start needs no network",
    "completion": "print the script by which a shell completes commands and flags",
}
_SPARK, _EXPECTATIONS = {"run": "pyspark"}, {"audit": "great_expectations"}
EXTRAS = {"run": _SPARK, "demo": _SPARK | _EXPECTATIONS, "audit": _EXPECTATIONS}
"""The extras that commands need, each with a package that shows whether it is installed."""
MISUSE = 2
_UNRECOGNIZED = re.compile(r"unrecognized arguments: (--?[^\s=]+)")
_INVALID_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
INTERRUPTED = 130
_OF_PATHS = frozenset({errno.EACCES, errno.ENAMETOOLONG})
"""Errors of a path that commands do not expect where they ask what is there."""
_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a file, such as standard output, that is open already."""


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, and takes no empty text for a path."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.register("type", Path, path_of)

    def error(self, message: str) -> NoReturn:
        """Raise UserError, which makes the exit status 2."""
        raise UserError(f"{message}; {self._hint(message)}")

    def _hint(self, message: str) -> str:
        """Name the nearest flag or choice, or else the help."""
        help_ = f"see `{self.prog} --help`"
        if unknown := _UNRECOGNIZED.search(message):
            return did_you_mean(unknown[1], self._option_string_actions, help_)
        if choice := _INVALID_CHOICE.search(message):
            return did_you_mean(choice[1], re.findall(r"[\w.-]+", choice[2]), help_)
        return help_


def path_of(text: str) -> Path:
    """Read a path. An empty one, such as a variable of the shell that is not set, would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 success, 1 violations, 2 misuse."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _open_output()
        with reader_may_leave():
            return _run(given)
    except UserError as error:
        return _misuse(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.errno in _OF_WRITING and error.filename is None:
            discard_output()
            return _misuse(f"cannot write: {error.strerror}")
        if error.errno in _OF_PATHS and error.filename is not None:
            return _misuse(f"cannot use {error.filename!r}: {error.strerror}")
        raise
    return 0


def _open_output() -> None:
    """Write UTF-8 whatever the locale is, and escape what is none, such as the names of some files."""
    if sys.stdout is None:
        raise UserError("standard output is closed; for no output add >/dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _misuse(line: str) -> int:
    """Print an error in one line, whatever the name of a file holds, and return the exit status."""
    from expectations.conversation.texts import printable  # noqa: PLC0415  # only now it is needed

    print(f"kipwatch: {printable(line)}", file=sys.stderr)
    return MISUSE


def _run(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(_overview())
        return 0 if given else MISUSE
    if given[0] == "--version":
        print(f"kipwatch {version('kipwatch')}")
        return 0
    name, *rest = given
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS, "see `kipwatch --help`")
        raise UserError(f"there is no command {name!r}; {hint}")
    extras = EXTRAS.get(name, {})
    if any(importlib.util.find_spec(package) is None for package in extras.values()):
        raise UserError(f"`kipwatch {name}` needs more packages: pip install 'kipwatch[{','.join(extras)}]'")
    if "pyspark" not in extras.values():
        # In Spark's driver, proxies of the JVM's objects are in cycles and keep those objects alive.
        make_collections_rare()
    with interrupt_held():
        command = importlib.import_module(f"streaming.commands.{name}")
    parser = OneLineParser(prog=f"kipwatch {name}", description=COMMANDS[name], allow_abbrev=False)
    command.add_arguments(parser)
    parsed = parser.parse_args(rest)
    if name != "run":
        _refuse_broken_packs()
    status: int = command.run(parsed)
    return status


def _refuse_broken_packs() -> None:
    """Raise UserError if the command has loaded rules, but not those of a pack.

    The query logs this instead, and judges by the other rules.
    """
    catalogue = sys.modules.get("expectations.rules.catalogue")
    for package, line in (catalogue.REFUSED_PACKS if catalogue else {}).items():
        raise UserError(f"the rule pack {package} is refused: {line}")


def _overview() -> str:
    width = max(map(len, COMMANDS)) + 4
    columns = shutil.get_terminal_size().columns
    lines = [
        textwrap.fill(
            purpose, columns, initial_indent=f"  {name}".ljust(width), subsequent_indent=" " * width
        )
        for name, purpose in COMMANDS.items()
    ]
    return "\n".join(
        ["usage: kipwatch COMMAND [flags]", "", *lines, "", "kipwatch COMMAND --help describes a command."]
    )


if __name__ == "__main__":
    sys.exit(main())
