"""The cells that a transition reads: one row of int64 for a connection and the frame that it comes to.

    stored     the row that is kept of a connection:
        where      its facts, its server and its requests in flight, by number, and whether it has findings
        progress   what every frame moves, before this frame
        registers  numbers, UUIDs in two cells each, and texts by their numbers in a pool (`canonical.py`)
    advanced   what every frame moves, after this frame
    input      the values of the frame's occurrence, and the own values of its statement

A guard compares two cells, a register is set to a cell, and so is each gap of a claim.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from expectations.conversation.columnar.window_columns import OF_OCCURRENCE as COLUMNS
from expectations.conversation.progress import PROGRESS_NUMBERS
from expectations.judging.canonical import NUMBERS, TEXTS, UUIDS

FACTS, SERVER, IN_FLIGHT, HAS_FINDINGS = range(4)
PROGRESS: Final = 4
NUMBER: Final = PROGRESS + len(PROGRESS_NUMBERS)
UUID: Final = NUMBER + NUMBERS
TEXT: Final = UUID + 2 * UUIDS
ROW: Final = TEXT + TEXTS
"""The width of a stored row, in which a cell's number is its column."""
ZERO: Final = ROW
"""A cell that holds 0."""
ADVANCED: Final = ZERO + 1
INPUT: Final = ADVANCED + len(PROGRESS_NUMBERS)

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


def input_cell(name: str) -> int:
    """Return the cell of an input."""
    return INPUT + INPUTS.index(name)


class Linear(NamedTuple):
    """A value: the cell `plus`, less the cell `minus`, and a constant."""

    plus: int = ZERO
    minus: int = ZERO
    constant: int = 0


class Effect(enum.IntFlag):
    """What a transition does, beyond what every frame does to the progress.

    A client ID, an instance ID or a member is new; frames were lost; the member's heartbeat is forgotten; the
    frame is the member's heartbeat. It yields claims. It closes the connection: one with findings publishes
    them, so the judge is asked.
    """

    NOTHING = 0
    NEW_CLIENT = 1
    NEW_INSTANCE = 2
    NEW_MEMBER = 4
    LOSES = 8
    FORGETS = 16
    BEATS = 32
    CLAIMS = 64
    CLOSES = 128
