"""Reads TOML, and explains a mistake in it: the line, the key, the given value and what is allowed.

msgspec validates the configuration, and its message gives the kind of mistake and a place in the structure.
The key is found in that structure, the line by reading the keys of the TOML text, what is allowed from the
type at the key.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from streaming.user_error import UserError, did_you_mean

Read = TypeVar("Read")
Key = tuple[str | int, ...]
"""The place of a value: names of tables and settings, and indices of lists."""

_LONGEST_VALUE = 60
_ERROR = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<place>.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_OF_TYPE = re.compile(r"Expected `|Invalid ")
_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*"
_TABLE_OF_LIST, _TABLE = re.compile(rf"\[\[{_DOTTED}\]\]\s*(#|$)"), re.compile(rf"\[{_DOTTED}\]\s*(#|$)")
_SETTING = re.compile(rf"{_DOTTED}=")
_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    bool: "true or false",
    date: "a day such as 2026-12-31",
    list: "a list",
    dict: "a table",
}


def read_toml(
    path: Path, kind: type[Read], what: str, listed: Callable[[str, Any], Any] = lambda _, value: value
) -> Read:
    """Read a TOML file. `what` is its name in words, `listed` replaces the value of a top-level setting.

    Raises UserError that names the line and the key of a mistake.
    """
    try:
        text = path.read_bytes().decode()
        settings: dict[str, Any] = msgspec.toml.decode(text)
    except OSError as error:
        raise UserError(f"cannot read {what} {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}") from error
    settings = {name: listed(name, value) for name, value in settings.items()}
    try:
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        key, mistake = explain(error, settings, kind)
        line = line_of(text, key)
        raise UserError(f"{path}{f':{line}' if line else ''}: {mistake}") from error


def explain(error: msgspec.ValidationError, settings: Mapping[str, Any], kind: type) -> tuple[Key, str]:
    """Return the key that an error is about, and a sentence that explains the mistake."""
    found = _ERROR.fullmatch(str(error))
    assert found
    key = _key(found["place"] or "", settings, kind)
    expected = _type_at(kind, key)
    if unknown := _UNKNOWN.fullmatch(found["what"]):
        known = get_type_hints(expected)
        otherwise = f"it is one of {', '.join(sorted(known))}"
        return (*key, unknown[1]), f"there is no setting {unknown[1]}; " + did_you_mean(
            unknown[1], known, otherwise
        )
    if missing := _MISSING.fullmatch(found["what"]):
        return key, f"{written(key) or 'it'} lacks the setting {missing[1]}"
    return key, f"{written(key)} is {_shown(_value_at(settings, key))}; {_allowed(found['what'], expected)}"


def line_of(text: str, key: Key) -> int | None:
    """Return the number of the line of a TOML text that is nearest to a key, None if there is none."""
    lines = {here: number for number, here in _keys_of_lines(text)}
    return next((lines[key[:size]] for size in range(len(key), 0, -1) if key[:size] in lines), None)


def written(key: Key) -> str:
    """Write a key as TOML does, with indices in brackets."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in key)
    return "".join(steps).removeprefix(".")


def _keys_of_lines(text: str) -> Iterable[tuple[int, Key]]:
    table: Key = ()
    lengths: dict[Key, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE_OF_LIST.match(line.strip()):
            name = _names(found[1])
            table = (*name, lengths.get(name, 0))
            lengths[name] = lengths.get(name, 0) + 1
            yield number, table
        elif found := _TABLE.match(line.strip()):
            table = _names(found[1])
            yield number, table
        elif found := _SETTING.match(line):
            yield number, (*table, *_names(found[1]))


def _names(dotted: str) -> Key:
    return tuple(name.strip("\"'") for name in re.findall(_NAME, dotted))


def _key(place: str, settings: Mapping[str, Any], kind: type) -> Key:
    """Return the key of a place in msgspec's message, which does not tell entries of a table apart."""
    key: Key = ()
    for step in _STEP.finditer(place):
        if step["index"] == "...":
            entries: Mapping[str, Any] = _value_at(settings, key)
            (inner,) = get_args(_bare(_type_at(kind, key)))[1:]
            key = (*key, next(name for name, value in entries.items() if not _fits(value, inner)))
        else:
            key = (*key, int(step["index"]) if step["index"] else step["name"])
    return key


def _fits(value: object, kind: type) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _value_at(settings: Any, key: Key) -> Any:
    for step in key:
        settings = settings[step]
    return settings


def _type_at(kind: Any, key: Key) -> Any:
    for step in key:
        bare = _bare(kind)
        fields = {} if get_origin(bare) else get_type_hints(bare, include_extras=True)
        kind = fields[str(step)] if fields else get_args(bare)[-1]
    return kind


def _bare(kind: Any) -> Any:
    """Return a type without annotations and without None."""
    if hasattr(kind, "__metadata__"):
        return _bare(kind.__origin__)
    members = [member for member in get_args(kind) if member is not NoneType]
    return _bare(members[0]) if NoneType in get_args(kind) and len(members) == 1 else kind


def _allowed(what: str, kind: Any) -> str:
    """Tell what is allowed. Messages of our own checks say so themselves."""
    return f"allowed is {_in_words(kind)}" if _OF_TYPE.match(what) else what


def _in_words(kind: Any) -> str:
    bare = _bare(kind)
    if isinstance(bare, type) and issubclass(bare, enum.Enum):
        return _one_of([str(member.value) for member in bare])
    if get_origin(bare) is Literal:
        return _one_of(get_args(bare))
    if get_args(bare) and get_origin(bare) not in _WORDS:
        return ", or ".join(_in_words(member) for member in get_args(bare))
    return _WORDS.get(get_origin(bare) or bare, "a table") + _bounds(kind)


def _one_of(words: Sequence[str]) -> str:
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


def _bounds(kind: Any) -> str:
    metas = [meta for each in (kind, *get_args(kind)) for meta in getattr(each, "__metadata__", ())]
    words = {"ge": "from {}", "gt": "above {}", "le": "to {}", "min_length": "that is not empty"}
    found = [
        text.format(getattr(meta, name))
        for name, text in words.items()
        for meta in metas
        if getattr(meta, name, None) is not None
    ]
    return "".join(f" {each}" for each in found)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
