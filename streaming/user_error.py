"""Errors that a user can correct: printed in one line, never as a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something outside the program is wrong, and the user can correct it.

    The message is one line that says what is wrong and what to do. `main` prints it and exits 2.
    """


def did_you_mean(word: str, known: Iterable[str], otherwise: str, *, cutoff: float = 0.6) -> str:
    """Suggest the known word nearest to `word`, ignoring case. Return `otherwise` if none is near."""
    by_lower = {each.lower(): each for each in known}
    nearest = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return f"did you mean {by_lower[nearest[0]]}?" if nearest else otherwise
