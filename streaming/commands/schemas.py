"""`kipwatch schemas import FILE.jar`: make the table of message schemas from a kafka-clients jar."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from decoders.schema.jar import dump_table, read_table
from decoders.schema.model import SchemaError
from streaming.failure import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="import")
    importing = actions.add_parser("import", help="read a kafka-clients jar and print the table")
    importing.add_argument("jar", type=Path, metavar="FILE.jar")


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    try:
        sys.stdout.write(dump_table(read_table(arguments.jar)))
    except SchemaError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot read {arguments.jar}: {error.strerror}") from error
    return 0
