"""The symbols of a step's statements, each computed once: windows share their tables of statements."""

from __future__ import annotations

from collections.abc import Mapping

from expectations.conversation.statement import Statement
from expectations.conversation.window import Window
from expectations.judging.symbol import Symbol


class _SymbolTable(dict[int, Symbol]):
    """The symbols of one table of statements, by number."""

    def __init__(self, statements: Mapping[int, Statement]) -> None:
        super().__init__()
        self.statements = statements

    def __missing__(self, number: int) -> Symbol:
        symbol = self[number] = Symbol(self.statements[number])
        return symbol


class Symbols:
    """Finds the symbols of windows. It holds their tables of statements, so it must not outlive the step."""

    def __init__(self) -> None:
        self._tables: dict[int, _SymbolTable] = {}

    def of(self, window: Window) -> Mapping[int, Symbol]:
        """Return the symbols of a window's statements, by number."""
        statements = window.statements
        table = self._tables.get(id(statements))
        if table is None:
            table = self._tables[id(statements)] = _SymbolTable(statements)
        return table
