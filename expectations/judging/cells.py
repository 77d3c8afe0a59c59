"""The cells that a transition reads: one row of int64 for a connection and the frame that it comes to.

    progress   what every frame moves, before this frame
    advanced   the same, after it
    registers  numbers, UUIDs in two cells each, and texts by their numbers in a pool (`canonical.py`)
    input      the values of the frame's occurrence, and the own values of its statement

A guard compares two cells, a register is set to a cell, and so is each gap of a claim.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from expectations.conversation.columnar.window_columns import OF_OCCURRENCE as COLUMNS
from expectations.conversation.progress import PROGRESS_NUMBERS
from expectations.judging.canonical import NUMBERS, TEXTS, UUIDS

ZERO: Final = 0
"""A cell that holds 0."""
PROGRESS: Final = 1
ADVANCED: Final = PROGRESS + len(PROGRESS_NUMBERS)
NUMBER: Final = ADVANCED + len(PROGRESS_NUMBERS)
UUID: Final = NUMBER + NUMBERS
TEXT: Final = UUID + 2 * UUIDS
INPUT: Final = TEXT + TEXTS

OF_OCCURRENCE: Final = COLUMNS[: COLUMNS.index("size")]
INPUTS: Final = (
    *OF_OCCURRENCE,
    "epoch",
    "client",
    "group",
    "instance",
    "instance_second",
    "member",
    "member_second",
    "evidence",
    "in_flight",
    "in_flight_after",
)
"""The names of the input cells, in order.

The first are those of an occurrence, the next seven those of a statement. `evidence` is the number of
the occurrence among those of the step. The last two say whether requests are in flight, before the frame and
after it.
"""
CELLS: Final = INPUT + len(INPUTS)
ROW: Final = len(PROGRESS_NUMBERS) + INPUT - NUMBER
"""Cells that are kept of a connection: the progress and the registers."""


def input_cell(name: str) -> int:
    """Return the cell of an input."""
    return INPUT + INPUTS.index(name)


class Linear(NamedTuple):
    """A value: the cell `plus`, less the cell `minus`, and a constant."""

    plus: int = ZERO
    minus: int = ZERO
    constant: int = 0
