"""The canonical form of a connection's state: its facts, with numbers in the place of its own values.

A state is walked in the order of its fields. Each own value (`expectations/conversation/own_values.py`) is
replaced by the number of its register, in the order in which registers appear. Two connections that behave
alike have the same canonical form, and differ in their registers:

    facts       what rules read: software, advertised ranges, what was said and in what form
    registers   the connection's own sequences, times, UUIDs and texts
    progress    what every frame moves (`expectations/conversation/progress.py`)

Equal UUIDs share a register, and so do equal texts: facts say which of a connection's IDs are equal. Numbers
never share one. Zero stands for a number that is not there, and stays zero.

The same walk fills a canonical form with values. The functions that walk are made from the types, once: a new
field, or the state of a new rule, needs nothing here but a type that says whether it is an own value.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from expectations.conversation.identifier import is_own_uuid, own_uuid, written
from expectations.conversation.observation import Evidence, Observation, Occurrence, Statement
from expectations.conversation.own_values import Own
from expectations.conversation.statement_template import (
    OwnValues,
    Values,
    is_own_text,
    split,
)
from expectations.rules.base.rule import Judgement

NUMBERS: Final = 32
UUIDS: Final = 3
TEXTS: Final = 4
"""Registers of a connection, by kind. A text register holds a text, or the evidence of a request that waits
for its response."""
_UUID_PREFIX: Final = b"\xfb\xef\xbe\xff\xff\xff\xab\xcd"
"""How the names of UUID registers begin: no two forms of text write such a UUID alike."""


class OddStateError(Exception):
    """A state has no canonical form: it has several members, too many own values, or a judgement."""


class Renamer(Protocol):
    """What an own value becomes. Numbers are positive, except those of `any_number`."""

    def number(self, value: int) -> int: ...
    def any_number(self, value: int) -> int: ...
    def text(self, value: str) -> str: ...
    def uuid(self, value: bytes) -> bytes: ...
    def evidence(self, value: Evidence) -> Evidence: ...

    @property
    def observations(self) -> dict[Observation, Observation]:
        """What walked observations became: several rules may keep one, which stays one."""


class Registers:
    """The registers of one state, filled while it is walked."""

    def __init__(self) -> None:
        self.observations: dict[Observation, Observation] = {}
        self.numbers: list[int] = []
        self.uuids: dict[bytes, int] = {}
        self.texts: dict[str | Evidence, int] = {}

    def number(self, value: int) -> int:
        """Put a number into the next register, and return which one that is, from 1."""
        self.numbers.append(value)
        return len(self.numbers)

    any_number = number

    def text(self, value: str) -> str:
        """Put a text into a register, and return the register's name."""
        name: str = _TEXT_NAMES[self.texts.setdefault(value, len(self.texts))]
        return name

    def uuid(self, value: bytes) -> bytes:
        """Put a UUID into a register, and return the register's name."""
        name: bytes = _UUID_NAMES[self.uuids.setdefault(value, len(self.uuids))]
        return name

    def evidence(self, value: Evidence) -> Evidence:
        """Put evidence into a text register, and return the register's name."""
        return Evidence(_TEXT_NAMES[self.texts.setdefault(value, len(self.texts))], b"")

    def checked_widths(self) -> tuple[int, int, int]:
        """Return the numbers of registers by kind. Raises OddStateError if there are too many."""
        widths = len(self.numbers), len(self.uuids), len(self.texts)
        if any(width > limit for width, limit in zip(widths, (NUMBERS, UUIDS, TEXTS), strict=True)):
            raise OddStateError
        return widths


class Filler:
    """Puts the values of registers in the place of their names."""

    def __init__(self, numbers: Sequence[int], uuids: Sequence[bytes], texts: Sequence[Any]) -> None:
        self.observations: dict[Observation, Observation] = {}
        self._numbers = numbers
        self._uuids = uuids
        self._texts = texts

    def number(self, value: int) -> int:
        return self._numbers[value - 1]

    any_number = number

    def text(self, value: str) -> str:
        text: str = self._texts[int(value)]
        return text

    def uuid(self, value: bytes) -> bytes:
        return self._uuids[value[-1]]

    def evidence(self, value: Evidence) -> Evidence:
        evidence: Evidence = self._texts[int(value.source)]
        return evidence


class _Names(dict[int, Any]):
    """The names of registers, each made when it is first needed."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> Any:
        if number > max(UUIDS, TEXTS):
            raise OddStateError
        self[number] = self._make(number)
        return self[number]


_TEXT_NAMES: Final = _Names(str)
_UUID_NAMES: Final = _Names(lambda number: _UUID_PREFIX + number.to_bytes(8))

Walk = Callable[[Any, Renamer], Any]


def _number(value: int, renamer: Renamer) -> int:
    return renamer.number(value) if value > 0 else value


def _any_number(value: int, renamer: Renamer) -> int:
    return renamer.any_number(value)


def _text(value: str, renamer: Renamer) -> str:
    return renamer.text(value) if is_own_text(value) else value


def _uuid(value: bytes, renamer: Renamer) -> bytes:
    return renamer.uuid(value) if is_own_uuid(value) else value


def _uuid_text(value: str, renamer: Renamer) -> str:
    own = own_uuid(value)
    return value if own is None else written(renamer.uuid(own[0]), own[1])


def _member_name(value: str, renamer: Renamer) -> str:
    group_id, separator, member_id = value.partition("\0")
    return f"{_text(group_id, renamer)}{separator}{_uuid_text(member_id, renamer)}"


def _statement(value: Statement, renamer: Renamer) -> Statement:
    template, own = split(value)
    if template.own is OwnValues.NONE:
        return value
    return template.filled(
        Values(
            renamer.text(own.client_id) if own.client_id else "",
            renamer.uuid(own.instance_id) if own.instance_id else b"",
            renamer.uuid(own.member_id) if own.member_id else b"",
            renamer.text(own.group_id) if own.group_id else "",
            renamer.number(own.epoch) if own.epoch else 0,
        )
    )


def _evidence(value: Evidence, renamer: Renamer) -> Evidence:
    return renamer.evidence(value)


def _observation(value: Observation, renamer: Renamer) -> Observation:
    walked = renamer.observations.get(value)
    if walked is None:
        statement = _statement(value.statement, renamer)
        walked = Observation(statement, _OCCURRENCE(value.occurrence, renamer))
        renamer.observations[value] = walked
    return walked


def _judgement(value: Judgement, renamer: Renamer) -> Judgement:
    raise OddStateError


_OF_OWN: Final[Mapping[Own, Walk]] = {
    Own.NUMBER: _number,
    Own.ANY_NUMBER: _any_number,
    Own.TEXT: _text,
    Own.UUID: _uuid,
    Own.UUID_TEXT: _uuid_text,
    Own.MEMBER_NAME: _member_name,
}
_OF_TYPE: Final[Mapping[type, Walk]] = {
    Observation: _observation,
    Evidence: _evidence,
    Judgement: _judgement,
}


@functools.cache
def walk_of(annotation: Any) -> Walk | None:
    """Return the function that walks values of a type, None if they are immutable without own values."""
    if annotation in _OF_TYPE:
        return _OF_TYPE[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        kind = arguments[1]
        return _OF_OWN[kind] if isinstance(kind, Own) else None
    if origin in (typing.Union, types.UnionType):
        return _walk_of_optional([each for each in arguments if each is not type(None)])
    if origin is dict:
        return _walk_of_dict(*map(walk_of, arguments))
    if origin is list:
        return _walk_of_list(walk_of(arguments[0]))
    is_struct = isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)
    return _walk_of_struct(annotation) if is_struct else None


def _walk_of_optional(given: Sequence[Any]) -> Walk | None:
    walks = [walk for each in given if (walk := walk_of(each)) is not None]
    if not walks:
        return None
    (walk,) = walks
    return lambda value, renamer: None if value is None else walk(value, renamer)


def _walk_of_dict(of_key: Walk | None, of_value: Walk | None) -> Walk:
    def walk(value: dict[Any, Any], renamer: Renamer) -> dict[Any, Any]:
        return {
            key if of_key is None else of_key(key, renamer): each
            if of_value is None
            else of_value(each, renamer)
            for key, each in value.items()
        }

    return walk


def _walk_of_list(of_item: Walk | None) -> Walk:
    def walk(value: list[Any], renamer: Renamer) -> list[Any]:
        return value.copy() if of_item is None else [of_item(each, renamer) for each in value]

    return walk


def _walk_of_struct(kind: type[msgspec.Struct]) -> Walk | None:
    hints = typing.get_type_hints(kind, include_extras=True)
    found = ((at, walk_of(hints[name])) for at, name in enumerate(kind.__struct_fields__))
    walks = [(at, of_field) for at, of_field in found if of_field is not None]
    if not walks and kind.__struct_config__.frozen:
        return None

    def walk(value: Any, renamer: Renamer) -> Any:
        fields = list(msgspec.structs.astuple(value))
        for at, of_field in walks:
            fields[at] = of_field(fields[at], renamer)
        return kind(*fields)

    return walk


_OCCURRENCE: Final = typing.cast(Walk, walk_of(Occurrence))
