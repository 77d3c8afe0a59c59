"""An expectation on a table: what Great Expectations checks, and what a person needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

CRITICAL: Final = "critical"
"""The data is wrong: verdicts or sums made of it are, too."""
WARNING: Final = "warning"
"""The data is unusual: look at it before you build on it."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation. `check` is that of Great Expectations, which has the id and severity, too.

    `meaning` says what is expected and why, in a sentence, `action` what to do where it is not met.
    """

    id: str
    severity: str
    meaning: str
    action: str
    check: Any


@dataclass(frozen=True, slots=True)
class Suite:
    """The expectations on one table, in the order in which they are reported."""

    table: str
    expectations: tuple[Expectation, ...]


def expected(
    kind: Any, identifier: str, severity: str, meaning: str, action: str, **what: Any
) -> Expectation:
    """Return an expectation of a kind of Great Expectations, on `what`."""
    check = kind(meta={"id": identifier}, severity=severity, **what)
    return Expectation(identifier, severity, meaning, action, check)
