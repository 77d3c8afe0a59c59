"""What is wrong with drafted messages: what Kafka's generator would refuse, and what breaks compatibility.

A version that is released, and not marked unstable, is encoded by clients and brokers that nobody changes.
A draft must leave it as it is: a field that is not tagged can be added only in a new version, and a tag
belongs to one field for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from decoders.schema.difference import FieldChange, MessageChange, difference
from decoders.schema.header_versions import remarks
from decoders.schema.model import Fault, Message, SchemaError, Struct, Table, VersionRange
from decoders.schema.table import (
    base_of,
    folder_of,
    is_overlay,
    message_files,
    messages_of,
    read_folder,
    read_message,
)

_TAGGED: Final = re.compile(r"\btag \d")


def lint(path: Path) -> list[Fault]:
    """Check the message files of a folder or a checkout, and what an overlay changes in its base.

    Raises SchemaError if the folder, its `overlay.json` or its base cannot be read.
    """
    folder = folder_of(path)
    files = message_files(folder)
    faults = [fault for name, content in files.items() for fault in _refused(name, content)]
    if faults:
        return faults
    table, base = read_folder(folder), base_of(folder) if is_overlay(folder, files) else None
    try:
        return list(_unfit(files, table, base))
    except SchemaError as error:
        return [Fault(error.file, 0, error.reason)]


def _refused(name: str, content: bytes) -> Iterator[Fault]:
    try:
        read_message(name, content)
    except SchemaError as error:
        yield _fault(name, content, error.field, error.reason)


def _unfit(files: Mapping[str, bytes], table: Table, base: Table | None) -> Iterator[Fault]:
    """Yield what is wrong with messages that are valid each by itself."""
    messages = messages_of(table)
    yield from remarks(messages)
    if base:
        released = messages_of(base)
        changed = (change for change in difference(base, table).messages if change.name in released)
        for change in changed:
            file = f"{change.name}.json"
            for path, reason in _broken(change, released[change.name]):
                yield _fault(file, files.get(file, b""), path, reason)
        for name in messages.keys() & released.keys():
            for path, reason in _reused_tags(released[name].struct, messages[name].struct):
                yield _fault(f"{name}.json", files.get(f"{name}.json", b""), path, reason)


def _broken(change: MessageChange, released: Message) -> Iterator[tuple[str, str]]:
    """Yield path and reason of each change of a released version that is not marked unstable."""
    stable = range(
        released.versions.lowest, released.versions.highest + (not released.latest_version_unstable)
    )
    for (path, before, after), versions in _in_released(change.fields, stable).items():
        text = ", ".join(f"v{version}" for version in versions)
        yield path, f"{path} was {before or 'absent'} and is {after or 'absent'} in {text}, already released"
    for each in change.changes:
        version = each.what.removeprefix("header of v")
        if version != each.what and int(version) in stable:
            yield "", f"v{version}, already released, had header {each.before} and has {each.after}"
        if each.what == "flexible":
            was, now = VersionRange.parse(each.before), VersionRange.parse(each.after)
            if any((version in was) != (version in now) for version in stable):
                yield "", f"flexible versions were {each.before} and are {each.after}, some already released"


def _in_released(
    fields: Iterable[FieldChange], stable: range
) -> dict[tuple[str, str | None, str | None], list[int]]:
    """Group changes of released versions; a tagged field, which old readers skip, may be added to those."""
    found: dict[tuple[str, str | None, str | None], list[int]] = {}
    tagged: tuple[str, ...] = ()
    for field in fields:
        if field.version != field.compared_with or field.version not in stable:
            continue
        if field.before is None and _TAGGED.search(field.after or ""):
            tagged += (f"{field.path}.",)
        elif not field.path.startswith(tagged):
            found.setdefault((field.path, field.before, field.after), []).append(field.version)
    return found


def _reused_tags(before: Struct, after: Struct, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and reason of each tagged field with a tag that belonged to another field."""
    owners = {field.tag: field.name for field in before.fields if field.tag is not None}
    inner = {field.name: field.struct for field in before.fields}
    for field in after.fields:
        owner = owners.get(field.tag, field.name) if field.tag is not None else field.name
        if owner != field.name:
            yield f"{prefix}{field.name}", f"tag {field.tag} belongs to {prefix}{owner}, a released field"
        was = inner.get(field.name)
        if field.struct and was:
            yield from _reused_tags(was, field.struct, f"{prefix}{field.name}.")


def _fault(file: str, content: bytes, path: str, reason: str) -> Fault:
    where = f"field {path}: " if path and not reason.startswith(path) else ""
    return Fault(file, _line_of(content.decode(errors="replace"), path), f"{where}{reason}")


def _line_of(text: str, path: str) -> int:
    """Return the line on which the field at a path has its name, 0 if there is none."""
    at = -1
    for name in filter(None, re.split(r"[<>.]+", path)):
        found = re.compile(rf'"name"\s*:\s*"{name}"', re.IGNORECASE).search(text, at + 1)
        if found is None:
            return 0
        at = found.start()
    return text.count("\n", 0, at) + 1 if at >= 0 else 0
