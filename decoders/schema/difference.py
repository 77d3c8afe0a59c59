"""Differences between two releases: in APIs, their versions, their headers and their fields.

A version that both releases have should be encoded alike in both, so a field that changed there is reported.
A version that only the newer release has is compared with the version before it, to show what is new. The
lowest version of a new message has none before it: all its fields are new.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from decoders.schema.header_versions import request_header_version, response_header_version
from decoders.schema.model import ZERO_UUID, Field, Message, Struct, Table, VersionRange
from decoders.schema.table import messages_of


@dataclass(frozen=True, slots=True)
class Renaming:
    """An API whose key has another name."""

    api_key: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that was added, removed or changed at a version; `before` or `after` is None if it is absent.

    `path` is the field's path as Kafka's JSON names it. `compared_with` is the version of the older release,
    or, for a new version, the one before it in the newer release; `version` itself if there is none.
    """

    version: int
    compared_with: int
    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A changed property.

    `what` is `versions`, `flexible`, `deprecated`, `unstable`, `listeners`, or a header as `header of v3`.
    """

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class MessageChange:
    """How a message changed. A message that the older release lacks has only `fields`."""

    name: str
    changes: tuple[PropertyChange, ...]
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """How the newer release differs from the older. `added` and `removed` name APIs with their versions."""

    older: str
    newer: str
    added: dict[str, str]
    removed: dict[str, str]
    renamed: tuple[Renaming, ...]
    messages: tuple[MessageChange, ...]


def difference(older: Table, newer: Table) -> Difference:
    """Compare two tables without any overlay. Raises SchemaError as `messages_of` does."""
    before, after = messages_of(older), messages_of(newer)
    were, are = _apis(before), _apis(after)
    return Difference(
        older=older["release"],
        newer=newer["release"],
        added={_name(are[key]): str(are[key].versions) for key in sorted(are.keys() - were.keys())},
        removed={_name(were[key]): str(were[key].versions) for key in sorted(were.keys() - are.keys())},
        renamed=tuple(
            Renaming(key, _name(were[key]), _name(are[key]))
            for key in sorted(were.keys() & are.keys())
            if were[key].name != are[key].name
        ),
        messages=tuple(_message_changes(before, after)),
    )


def _apis(messages: Mapping[str, Message]) -> dict[int, Message]:
    return {
        message.api_key: message
        for message in messages.values()
        if message.kind == "request" and message.api_key is not None
    }


def _name(request: Message) -> str:
    return request.name.removesuffix("Request")


def _message_changes(before: Mapping[str, Message], after: Mapping[str, Message]) -> Iterator[MessageChange]:
    known = {_identity(message): message for message in before.values()}
    for message in after.values():
        old = known.get(_identity(message))
        changes = tuple(_changes(old, message)) if old else ()
        change = MessageChange(message.name, changes, tuple(_field_changes(old, message)))
        if change.changes or change.fields:
            yield change


def _identity(message: Message) -> tuple[str, int | str]:
    """Return what identifies a message in both releases: its API key, or else its name."""
    return message.kind, message.name if message.api_key is None else message.api_key


def _changes(old: Message, new: Message) -> Iterator[PropertyChange]:
    aspects = {
        "versions": (str(old.versions), str(new.versions)),
        "flexible": (str(old.flexible_versions), str(new.flexible_versions)),
        "deprecated": (str(old.deprecated_versions), str(new.deprecated_versions)),
        "unstable": (_unstable(old), _unstable(new)),
        "listeners": (", ".join(old.listeners), ", ".join(new.listeners)),
    }
    for version in _versions(new.versions):
        if version in old.versions:
            aspects[f"header of v{version}"] = (_header(old, version), _header(new, version))
    for what, (before, after) in aspects.items():
        if before != after:
            yield PropertyChange(what, before, after)


def _unstable(message: Message) -> str:
    return f"v{message.versions.highest}" if message.latest_version_unstable else "none"


def _header(message: Message, version: int) -> str:
    if message.kind == "request":
        return str(request_header_version(message, version))
    return str(response_header_version(message, version)) if message.kind == "response" else ""


def _field_changes(old: Message | None, new: Message) -> Iterator[FieldChange]:
    for version in _versions(new.versions):
        if old and version in old.versions:
            yield from _fields_between(old, version, new, version)
        elif version - 1 in new.versions:
            yield from _fields_between(new, version - 1, new, version)
        elif old is None:
            yield from _fields_between(None, version, new, version)


def _fields_between(
    old: Message | None, compared_with: int, new: Message, version: int
) -> Iterator[FieldChange]:
    before = dict(_fields(old.struct, compared_with)) if old else {}
    after = dict(_fields(new.struct, version))
    for path in dict.fromkeys([*before, *after]):
        if before.get(path) != after.get(path):
            yield FieldChange(version, compared_with, path, before.get(path), after.get(path))


def _fields(struct: Struct, version: int, prefix: str = "") -> Iterator[tuple[str, str]]:
    for field in struct.fields:
        if version in field.versions:
            yield prefix + field.name, _description(field, version)
            if field.struct:
                yield from _fields(field.struct, version, f"{prefix}{field.name}.")


def _description(field: Field, version: int) -> str:
    words = [("[]" if field.is_array else "") + field.type]
    if version in field.nullable_versions:
        words.append("nullable")
    if version in field.tagged_versions:
        words.append(f"tag {field.tag}")
    default = _default(field)
    return " ".join([*words, f"default {default}"] if default else words)


def _default(field: Field) -> str:
    """Write a default as text; "" for the usual default of a field of its type."""
    if field.default is None:
        return "" if field.type == "records" else "null"
    return "" if field.default in ("", 0, [], {}, ZERO_UUID) else json.dumps(field.default).strip('"')


def _versions(versions: VersionRange) -> range:
    return range(versions.lowest, versions.highest + 1)
