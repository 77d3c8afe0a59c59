"""The symbols of a step's statements, each computed once: windows share their tables of statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from expectations.conversation.statement import Statement
from expectations.conversation.window import Window

AnySymbol = TypeVar("AnySymbol")


class _SymbolTable(dict[int, AnySymbol]):
    """The symbols of one table of statements, by number."""

    def __init__(self, statements: Mapping[int, Statement], make: Callable[[Statement], AnySymbol]) -> None:
        super().__init__()
        self.statements = statements
        self._make = make

    def __missing__(self, number: int) -> AnySymbol:
        symbol = self[number] = self._make(self.statements[number])
        return symbol


class Symbols(Generic[AnySymbol]):
    """Finds the symbols of windows. It holds their tables of statements, so it must not outlive the step.

    `make` makes the symbol of a statement.
    """

    def __init__(self, make: Callable[[Statement], AnySymbol]) -> None:
        self._make = make
        self._tables: dict[int, _SymbolTable[AnySymbol]] = {}

    def of(self, window: Window) -> Mapping[int, AnySymbol]:
        """Return the symbols of a window's statements, by number."""
        return self.of_table(window.statements)

    def of_table(self, statements: Mapping[int, Statement]) -> Mapping[int, AnySymbol]:
        """Return the symbols of a table of statements, by number."""
        table = self._tables.get(id(statements))
        if table is None:
            table = self._tables[id(statements)] = _SymbolTable(statements, self._make)
        return table
