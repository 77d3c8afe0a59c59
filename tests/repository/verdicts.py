"""Runs the cases of the rules and prints, as JSON, which rule came to which verdict in them.

A process of its own: pytest does not run inside itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from expectations.judge import Outcome
from tests.exchange import Exchange

TESTS = Path(__file__).parents[1]
CASES = [TESTS / "expectations" / "rules", TESTS / "cases"]


class Listener:
    """A plugin that listens to every judgement of every exchange."""

    def __init__(self) -> None:
        self.heard: set[tuple[str, str]] = set()

    @pytest.fixture(autouse=True)
    def listen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note what each case's exchange was judged to be."""
        judge = Exchange.judge

        def heard(exchange: Exchange, *arguments: Any, **named: Any) -> Outcome:
            outcome = judge(exchange, *arguments, **named)
            self.heard |= outcome.checks.keys()
            return outcome

        monkeypatch.setattr(Exchange, "judge", heard)


if __name__ == "__main__":
    listener = Listener()
    status = pytest.main([*map(str, CASES), "--quiet", "-p", "no:cacheprovider"], plugins=[listener])
    print("\n" + json.dumps(sorted(listener.heard)))
    sys.exit(status)
