"""Reads one message schema from its JSON form, and refuses what the language does not allow."""

from __future__ import annotations

import re
from typing import Any

from decoders.schema.model import (
    INTEGER_RANGES,
    NO_VERSIONS,
    NULLABLE_TYPES,
    PRIMITIVE_TYPES,
    ZERO_UUID,
    Document,
    Field,
    Message,
    SchemaError,
    Struct,
    VersionRange,
)

KINDS = frozenset({"request", "response", "header", "data"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_MESSAGE_PROPERTIES = frozenset(
    {"name", "type", "apiKey", "validVersions", "flexibleVersions", "headerVersions", "listeners"}
    | {"latestVersionUnstable", "deprecatedVersions", "commonStructs", "fields"}
)
_FIELD_PROPERTIES = frozenset(
    {"name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "flexibleVersions", "default"}
    | {"ignorable", "fields", "mapKey", "entityType", "zeroCopy", "about"}
)
_STRUCT_PROPERTIES = frozenset({"name", "versions", "fields", "about"})


def parse_message(document: Document, file: str) -> Message:
    """Build the message that a schema describes; `file` is named by the SchemaError of a bad one."""
    return _Parser(document, file).message()


class _Parser:
    def __init__(self, document: Document, file: str) -> None:
        self._document = document
        self._file = file
        self._flexible = NO_VERSIONS
        self._common: dict[str, Document] = {}

    def message(self) -> Message:
        document = self._document
        self._known_only(document, _MESSAGE_PROPERTIES, "")
        kind = self._text(document, "type", "")
        if kind not in KINDS:
            raise self._error("", f"type {kind!r} is not one of {', '.join(sorted(KINDS))}")
        versions = self._versions(document, "validVersions", "")
        self._flexible = self._versions(
            document, "flexibleVersions", "", NO_VERSIONS if not versions else None
        )
        if self._flexible and not self._flexible.is_open:
            raise self._error("", f"flexibleVersions {self._flexible} must be none or open, such as 2+")
        self._common = {
            self._name(struct, ""): struct for struct in self._list(document, "commonStructs", "")
        }
        return Message(
            name=self._name(document, ""),
            kind=kind,
            versions=versions,
            flexible_versions=self._flexible,
            struct=self._struct(document, ()),
            api_key=self._api_key(kind),
            listeners=tuple(self._list(document, "listeners", "")),
            latest_version_unstable=self._truth(document, "latestVersionUnstable", ""),
            header_versions=self._header_versions(),
        )

    def _api_key(self, kind: str) -> int | None:
        key = self._document.get("apiKey")
        if kind not in ("request", "response"):
            if key is not None:
                raise self._error("", f"apiKey {key!r} belongs to a request or response only")
            return None
        if type(key) is not int or not 0 <= key <= 0x7FFF:
            raise self._error("", f"apiKey {key!r} is not a number from 0 to 32767")
        return key

    def _header_versions(self) -> tuple[tuple[VersionRange, int], ...]:
        stated = self._document.get("headerVersions", {})
        if not isinstance(stated, dict):
            raise self._error("", "headerVersions is not a map")
        try:
            return tuple((VersionRange.parse(str(key)), int(value)) for key, value in stated.items())
        except (TypeError, ValueError) as error:
            raise self._error("", f"headerVersions: {error}") from error

    def _struct(self, document: Document, path: tuple[str, ...]) -> Struct:
        """Read a struct; `path` holds the names of the fields and common structs it stands in."""
        fields = tuple(self._field(field, path) for field in self._list(document, "fields", ".".join(path)))
        where = ".".join(path)
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            raise self._error(where, "two fields have the same name")
        tags = sorted(field.tag for field in fields if field.tag is not None)
        if tags != list(range(len(tags))):
            raise self._error(where, f"tags {tags} are not 0, 1, 2 and so on")
        return Struct(str(document.get("name", "")), fields)

    def _field(self, document: Document, path: tuple[str, ...]) -> Field:
        name = self._name(document, ".".join(path))
        where = ".".join((*path, name))
        self._known_only(document, _FIELD_PROPERTIES, where)
        stated = self._text(document, "type", where)
        element = stated.removeprefix("[]")
        struct = (
            None if element in PRIMITIVE_TYPES else self._struct_of(document, element, where, (*path, name))
        )
        tagged = self._versions(document, "taggedVersions", where, NO_VERSIONS)
        versions = self._versions(document, "versions", where, tagged or None)
        tag = self._tag(document, where, versions, tagged)
        is_array = stated.startswith("[]")
        nullable = self._nullable(
            document, where, is_array or struct is not None or element in NULLABLE_TYPES
        )
        return Field(
            name=name[0].lower() + name[1:],
            type="struct" if struct else element,
            versions=versions,
            is_array=is_array,
            nullable_versions=nullable,
            tagged_versions=tagged,
            tag=tag,
            flexible_versions=self._override(document, where, element),
            default=self._default(document, where, versions, nullable),
            ignorable=self._truth(document, "ignorable", where),
            struct=struct,
        )

    def _struct_of(self, document: Document, name: str, where: str, path: tuple[str, ...]) -> Struct:
        if not name[:1].isupper() or not _NAME.fullmatch(name):
            raise self._error(where, f"type {document['type']!r} is not known")
        if "fields" in document:
            return self._struct({"name": name, "fields": document["fields"]}, path)
        common = self._common.get(name)
        if common is None:
            raise self._error(where, f"struct {name} is defined nowhere")
        self._known_only(common, _STRUCT_PROPERTIES, name)
        # The types of the structs around this one stand in the path as `<name>`: a struct that
        # contained itself would have no end.
        if f"<{name}>" in path:
            raise self._error(where, f"struct {name} contains itself")
        return self._struct(common, (*path, f"<{name}>"))

    def _tag(
        self, document: Document, where: str, versions: VersionRange, tagged: VersionRange
    ) -> int | None:
        tag = document.get("tag")
        if (tag is None) != (not tagged):
            raise self._error(where, "tag and taggedVersions belong together")
        if tag is None:
            return None
        if type(tag) is not int or not tagged.is_open:
            raise self._error(
                where, f"tag {tag!r} in versions {tagged}: a number and an open range are needed"
            )
        if tagged.lowest < versions.lowest or not versions.is_open or not self._flexible:
            raise self._error(where, f"taggedVersions {tagged} are not all versions of the field")
        if tagged.lowest < self._flexible.lowest:
            raise self._error(where, f"taggedVersions {tagged} are not all flexible")
        return tag

    def _nullable(self, document: Document, where: str, allowed: bool) -> VersionRange:
        nullable = self._versions(document, "nullableVersions", where, NO_VERSIONS)
        if nullable and not allowed:
            raise self._error(where, f"a field of type {document['type']} cannot be null")
        return nullable

    def _override(self, document: Document, where: str, element: str) -> VersionRange | None:
        if "flexibleVersions" not in document:
            return None
        if element not in ("string", "bytes"):
            raise self._error(where, "only string and bytes fields may have flexibleVersions of their own")
        return self._versions(document, "flexibleVersions", where)

    def _default(self, document: Document, where: str, versions: VersionRange, nullable: VersionRange) -> Any:
        stated, kind = document.get("default"), str(document["type"])
        if stated == "null":
            if nullable.lowest > versions.lowest or nullable.highest < versions.highest:
                raise self._error(where, "the default is null, but not every version allows null")
            return None
        if kind == "records":
            return None
        if kind in PRIMITIVE_TYPES:
            return self._primitive_default(kind, stated, where)
        if stated not in (None, ""):
            raise self._error(where, f"default {stated!r}: an array or struct has none but null")
        return [] if kind.startswith("[]") else {}

    def _primitive_default(self, element: str, stated: Any, where: str) -> Any:
        text = "" if stated is None else str(stated)
        try:
            if element in ("string", "bytes"):
                return text
            if element == "uuid":
                return text or ZERO_UUID
            if element == "bool":
                return {"": False, "false": False, "true": True}[text.lower()]
            if element == "float64":
                return float(text or 0)
            value = int(text or "0", 0)
        except (KeyError, ValueError):
            raise self._error(where, f"default {stated!r} is not a {element}") from None
        lowest, highest = INTEGER_RANGES[element]
        if not lowest <= value <= highest:
            raise self._error(where, f"default {stated!r} does not fit in a {element}")
        return value

    def _versions(
        self, document: Document, name: str, where: str, absent: VersionRange | None = None
    ) -> VersionRange:
        if name not in document and absent is not None:
            return absent
        try:
            return VersionRange.parse(self._text(document, name, where))
        except ValueError as error:
            if isinstance(error, SchemaError):
                raise
            raise self._error(where, f"{name}: {error}") from error

    def _name(self, document: Document, where: str) -> str:
        name = self._text(document, "name", where)
        if not _NAME.fullmatch(name):
            raise self._error(where, f"{name!r} is not a name")
        return name

    def _text(self, document: Document, name: str, where: str) -> str:
        value = document.get(name)
        if not isinstance(value, str):
            raise self._error(where, f"{name} is missing" if value is None else f"{name} is not a text")
        return value

    def _truth(self, document: Document, name: str, where: str) -> bool:
        # Schemas write truth both bare and quoted.
        value = document.get(name, False)
        if value not in (True, False, "true", "false"):
            raise self._error(where, f"{name} is {value!r}, not true or false")
        return value in (True, "true")

    def _list(self, document: Document, name: str, where: str) -> list[Any]:
        value = document.get(name, [])
        if not isinstance(value, list):
            raise self._error(where, f"{name} is not a list")
        if name != "listeners" and not all(isinstance(item, dict) for item in value):
            raise self._error(where, f"an entry of {name} is not a map")
        return value

    def _known_only(self, document: Document, known: frozenset[str], where: str) -> None:
        unknown = sorted(set(document) - known)
        if unknown:
            raise self._error(where, f"property {unknown[0]!r} is not known")

    def _error(self, where: str, reason: str) -> SchemaError:
        return SchemaError(self._file, where, reason)
