"""The readings of the KIPs to judge by: `--spec`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from expectations.readings import read_choices, rules_read_as
from expectations.rule import Rule
from streaming.failure import UserError


def add_spec_flag(parser: argparse.ArgumentParser) -> None:
    """Declare `--spec`, which may be given once a KIP."""
    parser.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="KIP=READING",
        help="how to read a KIP, such as kip1082=text (default: as released Kafka does)",
    )


def chosen_rules(choices: Iterable[str]) -> tuple[Rule, ...]:
    """Give all rules in the readings chosen. Raises UserError for a choice that is none."""
    try:
        return rules_read_as(read_choices(choices))
    except ValueError as error:
        raise UserError(f"--spec: {error}") from None
