"""Cases whose exchanges are judged record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from expectations.cases import notation
from expectations.judging.outcome import Outcome
from expectations.rules.base.rule import Rule
from tests.exchange import Exchange


class Case(notation.Case):
    """A case of our own rules."""

    def judge(self, size: int) -> Outcome:
        """Write the exchange's records and judge them in windows of a size."""
        exchange, rules = self.exchange()
        return exchange.judge(size, rules)

    def exchange(self) -> tuple[Exchange, Sequence[Rule]]:
        """Write the exchange's records. Returns it and the rules in their readings."""
        return self.played(Exchange)


def read_page(path: Path) -> list[Case]:
    """Read all cases of a page. The page's path names the rule, as the rule's file does."""
    return [Case(*astuple(case)) for case in notation.read_page(path, path.parent.name.replace("_", ""))]
