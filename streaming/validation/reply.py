"""What the validator answers.

The types have a module of their own: those of a module that runs as a program cannot be unpickled elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

Successes = dict[tuple[str, str], bool]
"""Whether an expectation is met, by suite and expectation."""


class Reply(NamedTuple):
    """What was found, and in how many seconds of a processor.

    `problem` says in a line why something could not be validated; it is empty if all was.
    """

    successes: Successes
    seconds: float
    problem: str
