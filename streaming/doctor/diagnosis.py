"""A diagnosis: one thing that was looked at, what was found, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

from streaming.user_error import UserError


class Verdict(enum.StrEnum):
    """Whether something is as kipwatch needs it."""

    YES = "yes"
    NOTE = "note"
    """Nothing is known to be wrong, but a person should look at it."""
    NO = "no"


class Diagnosis(NamedTuple):
    """One line of the doctor's report. Unless the verdict is yes, `detail` says what to do."""

    verdict: Verdict
    name: str
    detail: str


def examine(name: str, probe: Callable[[], str]) -> Diagnosis:
    """Return yes with the text of the probe, or no with the UserError that it raises."""
    try:
        return Diagnosis(Verdict.YES, name, probe())
    except UserError as error:
        return Diagnosis(Verdict.NO, name, str(error))
