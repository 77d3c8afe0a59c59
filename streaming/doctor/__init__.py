"""`kipwatch doctor --config`: examines what a configuration needs, on this machine and in Kafka.

A diagnosis is one thing that was examined, the answer, and what to do about it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from streaming.user_error import UserError


class Answer(enum.StrEnum):
    """The answer to whether something is as kipwatch needs it."""

    YES = "yes"
    NOTE = "note"
    """Nothing is known to be wrong, but a person should look."""
    NO = "no"


class Diagnosis(NamedTuple):
    """One line of the doctor's report. Unless the answer is yes, `detail` tells what to do."""

    answer: Answer
    name: str
    detail: str


def examine(name: str, probe: Callable[[], str]) -> Diagnosis:
    """Return yes with the text that the probe returns, or no with the UserError that it raises."""
    try:
        return Diagnosis(Answer.YES, name, probe())
    except UserError as error:
        return Diagnosis(Answer.NO, name, str(error))
