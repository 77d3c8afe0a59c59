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
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from expectations.conversation.observation import Evidence, Observation, Occurrence, Statement
from expectations.conversation.own_values import Own
from expectations.conversation.progress import Progress
from expectations.conversation.statement_template import (
    OwnValues,
    Values,
    is_own_text,
    split,
)
from expectations.conversation.texts import is_own_uuid, own_uuid, written
from expectations.rules.base.rule import Judgement

NUMBERS: Final = 32
UUIDS: Final = 3
TEXTS: Final = 4
"""Registers of a connection, by kind. A text register holds a text, or the evidence of a request that waits
for its response."""
UUID_PREFIX: Final = b"\xfb\xef\xbe\xff\xff\xff"
"""How names of UUID registers and stand-ins for UUIDs begin: no two forms of text write such a UUID alike."""


class OddStateError(Exception):
    """A state has no canonical form: it has several members, too many own values, or holds a judgement."""


@dataclass(frozen=True, slots=True)
class Renamer:
    """What the own values of a state become. `number` gets positive numbers, `any_number` any.

    `observations` are those that were walked: several rules may keep one, which stays one.
    """

    number: Callable[[int], int]
    any_number: Callable[[int], int]
    text: Callable[[str], str]
    uuid: Callable[[bytes], bytes]
    evidence: Callable[[Evidence], Evidence]
    observations: dict[Observation, Observation] = field(default_factory=dict)


class Registers:
    """The registers of one state, filled while it is walked with `renamer`."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.uuids: dict[bytes, int] = {}
        self.texts: dict[str | Evidence, int] = {}
        self.renamer = Renamer(self._number, self._number, self._text, self._uuid, self._evidence)

    def checked_widths(self) -> tuple[int, int, int]:
        """Return the numbers of registers by kind. Raises OddStateError if there are too many."""
        widths = len(self.numbers), len(self.uuids), len(self.texts)
        if any(width > limit for width, limit in zip(widths, (NUMBERS, UUIDS, TEXTS), strict=True)):
            raise OddStateError
        return widths

    def _number(self, value: int) -> int:
        """Put a number into the next register, and return which one that is, from 1."""
        self.numbers.append(value)
        return len(self.numbers)

    def _text(self, value: str | Evidence) -> str:
        """Put a text into a register, and return the register's name."""
        return _TEXT_NAMES[min(self.texts.setdefault(value, len(self.texts)), TEXTS)]

    def _uuid(self, value: bytes) -> bytes:
        return _UUID_NAMES[min(self.uuids.setdefault(value, len(self.uuids)), UUIDS)]

    def _evidence(self, value: Evidence) -> Evidence:
        return Evidence(self._text(value), b"")


def filler(numbers: Sequence[int], uuids: Sequence[bytes], texts: Sequence[Any]) -> Renamer:
    """Return what puts the values of registers in the place of their names."""

    def number(name: int) -> int:
        return numbers[name - 1]

    return Renamer(
        number,
        number,
        lambda name: texts[int(name)],
        lambda name: uuids[name[-1]],
        lambda name: texts[int(name.source)],
    )


_TEXT_NAMES: Final = tuple(map(str, range(TEXTS + 1)))
"""The names of text registers; all that are too many share the last one."""
_UUID_NAMES: Final = tuple(UUID_PREFIX + b"\xab\xcd" + number.to_bytes(8) for number in range(UUIDS + 1))

Walk = Callable[[Any, Renamer], Any]


def _number(value: int, renamer: Renamer) -> int:
    return renamer.number(value) if value > 0 else value


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
    Own.ANY_NUMBER: lambda value, renamer: renamer.any_number(value),
    Own.TEXT: _text,
    Own.UUID: _uuid,
    Own.UUID_TEXT: _uuid_text,
    Own.MEMBER_NAME: _member_name,
}
_OF_TYPE: Final[Mapping[type, Walk]] = {
    Observation: _observation,
    Evidence: lambda value, renamer: renamer.evidence(value),
    Judgement: _judgement,
    Progress: lambda _value, _renamer: Progress(),
}
"""The progress is kept apart from the form."""


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
