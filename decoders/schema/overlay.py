"""Overlays: what a draft changes in the messages of a release, as data.

An overlay is a folder. Its message files, in Kafka's own JSON, replace those of the same name or add to
them. Its `overlay.json`, which may be absent, has the keys of `Overlay`: a name, the release that is
changed, and changes that would otherwise be written into a hundred files, such as one more version of
every request.

`kip-1313` is the overlay that is laid over every release that lacks `headerVersions` (KIP-1313, section
"Kafka Protocol Changes"), since no release has request header 3 yet:

- Every API with valid versions, SaslHandshake excepted, gets one more version. It uses request header 3
  and has the body of the version before it. Request and response state `headerVersions`.
- OffsetDelete v1 is also the first flexible version of its API.
- GetTelemetrySubscriptions v1, in request and response, and PushTelemetry v1, in the request, have no
  ClientInstanceId in the body: the header has it.

It has two readings. The KIP's text puts the ID between the client ID and the tagged fields. The KIP's later
revision, whose text is not published with it, has a tagged field, assumed to be tag 0, the first free one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from decoders.schema.grammar import parse_message
from decoders.schema.header_versions import request_header_version, response_header_version
from decoders.schema.model import HIGHEST_VERSION, Message, SchemaError, Table, VersionRange

FILE: Final = "overlay.json"


class Change(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """A change of several messages: of all requests or responses that have versions, or of those named.

    With `new_version` each gets one version more than it had, and the other keys say what is new in it:
    `header_version` is the version of its header ("by rule": the schema states the one that it has anyway),
    `flexible` makes it the first flexible version, `removed` and `added` are fields of the message itself,
    `added` in Kafka's JSON.
    """

    messages: Literal["request", "response"] | tuple[str, ...]
    omitted: tuple[str, ...] = msgspec.field(default=(), name="except")
    new_version: bool = False
    header_version: int | Literal["by rule"] | None = None
    flexible: bool = False
    removed: tuple[str, ...] = ()
    added: tuple[dict[str, Any], ...] = ()

    def applies_to(self, message: Message) -> bool:
        """Return whether a message of the release changes."""
        if isinstance(self.messages, tuple):
            return message.name in self.messages
        return message.kind == self.messages and bool(message.versions) and message.name not in self.omitted


class Overlay(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """The contents of `overlay.json`.

    An empty `name` stands for that of the folder. `base` is the jar, table or folder of the release, relative
    to the overlay's folder; an empty one stands for the committed table. An overlay
    with `absent` is for releases of which no message has this property. `readings` are changes by reading, of
    which one applies at a time.
    """

    name: str = ""
    base: str = ""
    absent: str = ""
    changes: tuple[Change, ...] = ()
    readings: Mapping[str, tuple[Change, ...]] = {}

    @classmethod
    def read(cls, folder: Path) -> Overlay:
        """Read the `overlay.json` of a folder, if there is one. Raises SchemaError."""
        path = folder / FILE
        try:
            found = msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else cls()
        except (OSError, msgspec.MsgspecError) as error:
            raise SchemaError(str(path), "", str(error)) from error
        return msgspec.structs.replace(found, name=found.name or folder.name)

    def is_for(self, table: Table) -> bool:
        """Return whether no message of the table has the property that a release with these changes has."""
        return not any(self.absent in message for message in table["messages"])

    def laid_over(self, table: Table, reading: str = "") -> Table:
        """Return the table with the changes; the given one is not changed. Raises SchemaError."""
        changes = [*self.changes, *self.readings.get(reading, ())]
        return {**table, "messages": [_amended(message, changes) for message in table["messages"]]}


KIP_1313: Final = Overlay.read(Path(__file__).with_name("kip-1313"))


def _amended(document: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    released = parse_message(document, f"{document.get('name')}.json")
    changes = [change for change in changes if change.applies_to(released)]
    added = released.versions.highest + 1
    amended = dict(document)
    for change in changes:
        if change.new_version:
            amended["validVersions"] = str(VersionRange(released.versions.lowest, added))
        if change.flexible:
            amended["flexibleVersions"] = f"{added}+"
        if change.removed or change.added:
            fields = [_until(each, change.removed, added - 1) for each in amended.get("fields", ())]
            amended["fields"] = [*fields, *change.added]
    for header in (change.header_version for change in changes):
        if header is not None:
            amended["headerVersions"] = _header_versions(released, amended, header)
    return amended


def _until(field: dict[str, Any], removed: Sequence[str], highest: int) -> dict[str, Any]:
    if field["name"] not in removed:
        return field
    present = VersionRange.parse(field.get("versions") or field["taggedVersions"])
    return {**field, "versions": str(VersionRange(present.lowest, highest))}


def _header_versions(released: Message, amended: dict[str, Any], stated: int | str) -> dict[str, str]:
    """Write the map from versions to header versions, from version 0 to the new one."""
    header = request_header_version if released.kind == "request" else response_header_version
    used = [header(released, version) for version in range(released.versions.highest + 1)]
    if not isinstance(stated, int):
        flexible = VersionRange.parse(amended["flexibleVersions"])
        stated = header(replace(released, flexible_versions=flexible), released.versions.highest + 1)
    return _in_ranges([*used, stated])


def _in_ranges(used: list[int]) -> dict[str, str]:
    """Group consecutive versions from 0 on that use the same header; the last range is open."""
    stated, lowest = {}, 0
    for header_version, group in groupby(used):
        highest = lowest + len(list(group)) - 1
        end = HIGHEST_VERSION if highest == len(used) - 1 else highest
        stated[str(VersionRange(lowest, end))] = str(header_version)
        lowest = highest + 1
    return stated
