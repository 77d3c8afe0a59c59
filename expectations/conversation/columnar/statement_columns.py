"""Statements as columns: the template of each by number, and its own values as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from expectations.conversation.observation import Statement
from expectations.conversation.statement_template import StatementTemplate, Values, split

FIELDS: Final = (
    "template",
    "client",
    "group",
    "instance_first",
    "instance_second",
    "member_first",
    "member_second",
    "epoch",
)
"""The rows of `columns`. A UUID is two numbers, its halves as little-endian int64."""
AT: Final[Mapping[str, int]] = {name: number for number, name in enumerate(FIELDS)}
NO_TEXT: Final = -1
_INSTANCE: Final = slice(AT["instance_first"], AT["instance_second"] + 1)
_MEMBER: Final = slice(AT["member_first"], AT["member_second"] + 1)
_Integers = NDArray[np.int64]
_Value = TypeVar("_Value", bound=Hashable)


class Numbered(Generic[_Value]):
    """Numbers distinct values from 0, and lists them; it begins with distinct `values`."""

    def __init__(self, values: Iterable[_Value] = ()) -> None:
        self.values = list(values)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _numbers(self) -> dict[_Value, int]:
        return {value: number for number, value in enumerate(self.values)}

    def number(self, value: _Value) -> int:
        """Return the number of a value; a new one gets the next number."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class StatementRows:
    """Lays statements out as rows of FIELDS. Equal statements have equal rows."""

    def __init__(self) -> None:
        self.templates = Numbered[StatementTemplate]()
        self.texts = Numbered[str]()

    def row(self, statement: Statement) -> tuple[int, ...]:
        """Return the numbers of a statement, in the order of FIELDS."""
        template, own = split(statement)
        return (
            self.templates.number(template),
            self.texts.number(own.client_id) if own.client_id else NO_TEXT,
            self.texts.number(own.group_id) if own.group_id else NO_TEXT,
            *halves_of(own.instance_id),
            *halves_of(own.member_id),
            own.epoch,
        )

    def columns(self, rows: _Integers) -> StatementColumns:
        """Return the statements of rows, shape (n, len(FIELDS))."""
        return StatementColumns(self.templates.values, self.texts.values, np.ascontiguousarray(rows.T))


class StatementColumns(Mapping[int, Statement]):
    """The statements of a batch, by number, made into objects when they are looked up.

    `columns` (int64) has a column per statement, with a row for each of FIELDS. `template` is a number in
    `templates`, `client` and `group` are numbers in `texts`, NO_TEXT for a statement without one. Values that
    a statement lacks are 0.
    """

    def __init__(
        self, templates: Sequence[StatementTemplate], texts: Sequence[str], columns: _Integers
    ) -> None:
        self.templates = templates
        self.texts = texts
        self.columns = columns
        self._made: dict[int, Statement] = {}

    @classmethod
    def of(cls, statements: Iterable[Statement]) -> StatementColumns:
        """Lay statements out; they are numbered from 0."""
        laid_out = StatementRows()
        rows = [laid_out.row(statement) for statement in statements]
        return laid_out.columns(np.array(rows, np.int64).reshape(-1, len(FIELDS)))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getitem__(self, number: int) -> Statement:
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = self._make(number)
        return made

    def chosen(self, numbers: _Integers) -> StatementColumns:
        """Return some of the statements, with the templates and texts that they use."""
        columns = self.columns[:, numbers]
        templates, columns[AT["template"]] = np.unique(columns[AT["template"]], return_inverse=True)
        named = columns[[AT["client"], AT["group"]]]
        texts, inverse = np.unique(named, return_inverse=True)
        # NO_TEXT sorts first, and so becomes NO_TEXT again.
        has_none = int(len(texts) > 0 and texts[0] == NO_TEXT)
        columns[[AT["client"], AT["group"]]] = inverse.reshape(named.shape) - has_none
        return StatementColumns(
            [self.templates[number] for number in templates.tolist()],
            [self.texts[number] for number in texts[has_none:].tolist()],
            columns,
        )

    def _make(self, number: int) -> Statement:
        column: list[int] = self.columns[:, number].tolist()
        template, client, group, *_, epoch = column
        # A template takes the values that are its statements' own, and no others.
        own = Values(
            self.texts[client] if client != NO_TEXT else "",
            self.columns[_INSTANCE, number].tobytes(),
            self.columns[_MEMBER, number].tobytes(),
            self.texts[group] if group != NO_TEXT else "",
            epoch,
        )
        return self.templates[template].filled(own)


def halves_of(identifier: bytes) -> tuple[int, int]:
    """Return a UUID's halves as little-endian int64, two zeros for no UUID."""
    if not identifier:
        return 0, 0
    first, second = identifier[:8], identifier[8:]
    return int.from_bytes(first, "little", signed=True), int.from_bytes(second, "little", signed=True)
