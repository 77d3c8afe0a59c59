"""Reads a message schema from its JSON, and refuses what the schema language does not allow.

`_Document` reads the properties of one JSON object, a message, struct or field, and names it in errors.
`_Parser` reads the objects of a message from the outside in. Kafka's generator defines the language. What it
refuses, and what this parser does not know, is a SchemaError: a guess would decode frames wrongly.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from decoders.schema.header_versions import parse_header_versions
from decoders.schema.model import (
    INTEGER_RANGES,
    NO_VERSIONS,
    NULLABLE_TYPES,
    PRIMITIVE_TYPES,
    ZERO_UUID,
    Field,
    HeaderVersions,
    Message,
    SchemaError,
    Struct,
    VersionRange,
)

_KINDS: Final = frozenset({"request", "response", "header", "data"})
KEPT_OF_MESSAGE: Final = (
    "type",
    "apiKey",
    "name",
    "listeners",
    "validVersions",
    "flexibleVersions",
    "headerVersions",
    "deprecatedVersions",
    "latestVersionUnstable",
)
"""The properties of a message that affect the encoding, in the order that a table has, but for its fields."""
KEPT_OF_FIELD: Final = (
    "name",
    "type",
    "versions",
    "nullableVersions",
    "taggedVersions",
    "tag",
    "flexibleVersions",
    "default",
    "ignorable",
)
_OF_MESSAGE: Final = frozenset({*KEPT_OF_MESSAGE, "commonStructs", "fields"})
_OF_REQUEST: Final = ("listeners", "latestVersionUnstable")
_OF_FIELD: Final = frozenset({*KEPT_OF_FIELD, "fields", "mapKey", "entityType", "zeroCopy", "about"})
_OF_STRUCT: Final = frozenset({"name", "versions", "fields", "about"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_TRUTH: Final = {"": False, "false": False, "true": True}


def parse_message(properties: Mapping[str, Any], file: str) -> Message:
    """Return the message that a schema describes. Raises SchemaError, which names `file`."""
    document = _Document(properties, file)
    try:
        return _Parser(document).message()
    except RecursionError:
        raise document.refused("its fields are nested too deeply") from None


@dataclass(frozen=True, slots=True)
class _Document:
    """The JSON object of a message, struct or field, read property by property.

    Every method raises SchemaError for a malformed property. The error names `file` and `where`, the path of
    the field in it ("" for the message).
    """

    properties: Mapping[str, Any]
    file: str
    where: str = ""

    def __contains__(self, name: str) -> bool:
        return name in self.properties

    def get(self, name: str) -> Any:
        """Return a property unchecked, None if it is absent."""
        return self.properties.get(name)

    def at(self, where: str) -> _Document:
        """Return the same object; its errors name another place."""
        return _Document(self.properties, self.file, where)

    def refused(self, reason: str) -> SchemaError:
        """Make the error that names this place."""
        return SchemaError(self.file, self.where, reason)

    def allow_only(self, known: frozenset[str]) -> None:
        unknown = sorted(set(self.properties) - known)
        if unknown:
            raise self.refused(f"property {unknown[0]!r} is not known")

    def text(self, name: str) -> str:
        value = self.properties.get(name)
        if not isinstance(value, str):
            raise self.refused(f"{name} is missing" if value is None else f"{name} is not a text")
        return value

    def name(self) -> str:
        name = self.text("name")
        if not _is_name(name):
            raise self.refused(f"{name!r} is not a name")
        return name

    def number(self, name: str) -> int:
        # Schemas write numbers both bare and quoted.
        value = self.properties.get(name)
        if not _NUMBER.fullmatch(str(value)):
            raise self.refused(f"{name} {value!r} is not a number")
        return int(str(value))

    def truth(self, name: str) -> bool:
        # Schemas write booleans both bare and quoted.
        value = self.properties.get(name, False)
        if value not in (True, False, "true", "false"):
            raise self.refused(f"{name} is {value!r}, not true or false")
        return value in (True, "true")

    def versions(self, name: str, absent: VersionRange | None = None) -> VersionRange:
        """Read a range of versions; `absent` is its value if it is optional and missing."""
        if name not in self.properties and absent is not None:
            return absent
        text = self.text(name)
        try:
            return VersionRange.parse(text)
        except ValueError as error:
            raise self.refused(f"{name}: {error}") from error

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise self.refused(f"an entry of {name} is not a text")
        return tuple(values)

    def documents(self, name: str) -> list[_Document]:
        values = self._list(name)
        if not all(isinstance(value, dict) for value in values):
            raise self.refused(f"an entry of {name} is not a map")
        return [_Document(value, self.file, self.where) for value in values]

    def _list(self, name: str) -> list[Any]:
        values = self.properties.get(name, [])
        if not isinstance(values, list):
            raise self.refused(f"{name} is not a list")
        return values


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


class _Parser:
    def __init__(self, document: _Document) -> None:
        self._document = document
        self._flexible = NO_VERSIONS
        self._common: dict[str, _Document] = {}

    def message(self) -> Message:
        document, kind = self._document, self._kind()
        versions = document.versions("validVersions")
        if versions.is_open:
            raise document.refused(f"validVersions {versions} is open: it must name the latest version")
        self._flexible = document.versions("flexibleVersions", None if versions else NO_VERSIONS)
        if self._flexible and not self._flexible.is_open:
            raise document.refused(f"flexibleVersions {self._flexible} must be none or open, such as 2+")
        self._read_common_structs()
        return Message(
            name=document.name(),
            kind=kind,
            versions=versions,
            flexible_versions=self._flexible,
            struct=self._struct(document, ()),
            api_key=self._api_key(kind),
            listeners=document.texts("listeners"),
            latest_version_unstable=document.truth("latestVersionUnstable"),
            header_versions=self._header_versions(kind, versions),
            deprecated_versions=document.versions("deprecatedVersions", NO_VERSIONS),
        )

    def _kind(self) -> str:
        document = self._document
        document.allow_only(_OF_MESSAGE)
        kind = document.text("type")
        if kind not in _KINDS:
            raise document.refused(f"type {kind!r} is not one of {', '.join(sorted(_KINDS))}")
        for name in _OF_REQUEST:
            if name in document and kind != "request":
                raise document.refused(f"{name} belongs to a request only")
        return kind

    def _api_key(self, kind: str) -> int | None:
        key = self._document.get("apiKey")
        if kind not in ("request", "response"):
            if key is not None:
                raise self._document.refused(f"apiKey {key!r} belongs to a request or response only")
            return None
        if type(key) is not int or not 0 <= key <= 0x7FFF:
            raise self._document.refused(f"apiKey {key!r} is not a number from 0 to 32767")
        return key

    def _header_versions(self, kind: str, valid: VersionRange) -> HeaderVersions:
        if "headerVersions" not in self._document:
            return ()
        stated = self._document.get("headerVersions")
        if kind not in ("request", "response") or not isinstance(stated, dict):
            raise self._document.refused("headerVersions is a map, and belongs to a request or response only")
        try:
            return parse_header_versions(stated, valid)
        except ValueError as error:
            raise self._document.refused(f"headerVersions: {error}") from error

    def _read_common_structs(self) -> None:
        for document in self._document.documents("commonStructs"):
            name = document.name()
            struct = document.at(name)
            struct.allow_only(_OF_STRUCT)
            struct.versions("versions", NO_VERSIONS)
            if name in self._common:
                raise struct.refused("two common structs have this name")
            self._common[name] = struct
        for name, struct in self._common.items():
            self._struct(struct, (f"<{name}>",))

    def _struct(self, document: _Document, path: tuple[str, ...]) -> Struct:
        """Read a struct; `path` holds the names of the fields and common structs that contain it."""
        document = document.at(".".join(path))
        fields = tuple(self._field(field, path) for field in document.documents("fields"))
        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise document.refused(f"two fields have the same name, {twice[0]}")
        tags = sorted(field.tag for field in fields if field.tag is not None)
        if tags != list(range(len(tags))):
            raise document.refused(f"tags {tags} are not 0, 1, 2 and so on")
        return Struct(fields)

    def _field(self, document: _Document, path: tuple[str, ...]) -> Field:
        name = document.name()
        document = document.at(".".join((*path, name)))
        document.allow_only(_OF_FIELD)
        type_ = document.text("type")
        element = type_.removeprefix("[]")
        struct = self._struct_of(document, element, (*path, name))
        tagged = document.versions("taggedVersions", NO_VERSIONS)
        versions = document.versions("versions", tagged or None)
        nullable = _nullable(document, type_)
        return Field(
            name=name[0].lower() + name[1:],
            type="struct" if struct else element,
            versions=versions,
            is_array=type_.startswith("[]"),
            nullable_versions=nullable,
            tagged_versions=tagged,
            tag=self._tag(document, versions, tagged, nullable),
            flexible_versions=_override(document, type_),
            default=_default(document, type_, versions, nullable),
            ignorable=document.truth("ignorable"),
            struct=struct,
        )

    def _struct_of(self, document: _Document, name: str, path: tuple[str, ...]) -> Struct | None:
        if name in PRIMITIVE_TYPES:
            if document.get("fields"):
                raise document.refused(f"a field of type {document.get('type')} has no fields of its own")
            return None
        if not name[:1].isupper() or not _is_name(name):
            raise document.refused(f"type {document.get('type')!r} is not known")
        common = self._common.get(name)
        if "fields" in document:
            if common:
                raise document.refused(f"struct {name} is a common struct, and defined here too")
            return self._struct(document, path)
        if common is None:
            raise document.refused(f"struct {name} is defined nowhere")
        # The path names the enclosing structs as `<name>`. A struct that contains itself would never end.
        if f"<{name}>" in path:
            raise document.refused(f"struct {name} contains itself")
        return self._struct(common, (*path, f"<{name}>"))

    def _tag(
        self, document: _Document, versions: VersionRange, tagged: VersionRange, nullable: VersionRange
    ) -> int | None:
        if ("tag" in document) != bool(tagged):
            raise document.refused("tag and taggedVersions belong together")
        if not tagged:
            return None
        tag = document.number("tag")
        if not tagged.is_open:
            raise document.refused(f"taggedVersions {tagged} must be open, such as 2+")
        if tagged.lowest < versions.lowest or not versions.is_open:
            raise document.refused(f"taggedVersions {tagged} are not all versions of the field")
        if not self._flexible or tagged.lowest < self._flexible.lowest:
            raise document.refused(f"taggedVersions {tagged} are not all flexible")
        if nullable and not (nullable.is_open and nullable.lowest <= tagged.lowest):
            raise document.refused(
                f"nullableVersions {nullable} are some of the tagged ones, {tagged}: not all"
            )
        if document.truth("mapKey"):
            raise document.refused("a tagged field cannot be a mapKey")
        return tag


def _nullable(document: _Document, type_: str) -> VersionRange:
    nullable = document.versions("nullableVersions", NO_VERSIONS)
    if nullable and type_ in PRIMITIVE_TYPES - NULLABLE_TYPES:
        raise document.refused(f"a field of type {type_} cannot be null")
    return nullable


def _override(document: _Document, type_: str) -> VersionRange | None:
    if document.truth("zeroCopy") and type_ != "bytes":
        raise document.refused("only bytes fields may be zeroCopy")
    if "flexibleVersions" not in document:
        return None
    if type_.removeprefix("[]") not in ("string", "bytes"):
        raise document.refused("only string and bytes fields may have flexibleVersions of their own")
    return document.versions("flexibleVersions")


def _default(document: _Document, type_: str, versions: VersionRange, nullable: VersionRange) -> Any:
    """Return the value of an absent field, in the form that the codec uses."""
    stated = document.get("default")
    if stated == "null":
        if nullable.lowest > versions.lowest or nullable.highest < versions.highest:
            raise document.refused("the default is null, but not every version allows null")
        return None
    if type_ not in PRIMITIVE_TYPES or type_ in ("bytes", "records"):
        if stated not in (None, ""):
            raise document.refused(f"default {stated!r}: a field of type {type_} has none but null")
        return _empty(type_)
    try:
        return _primitive(type_, "" if stated is None else str(stated))
    except (KeyError, ValueError, binascii.Error):
        raise document.refused(f"default {stated!r} is not a {type_}") from None


def _empty(type_: str) -> Any:
    if type_ == "records":
        return None
    if type_ == "bytes":
        return ""
    return [] if type_.startswith("[]") else {}


def _primitive(type_: str, text: str) -> Any:
    if type_ == "string":
        return text
    if type_ == "uuid":
        return _uuid(text or ZERO_UUID)
    if type_ == "bool":
        return _TRUTH[text.lower()]
    if type_ == "float64":
        return float(text or 0)
    value, (lowest, highest) = int(text or "0", 0), INTEGER_RANGES[type_]
    if not lowest <= value <= highest:
        raise ValueError
    return value


def _uuid(text: str) -> str:
    content = base64.b64decode(f"{text}==", b"-_", validate=True)
    if base64.urlsafe_b64encode(content).decode() != f"{text}==":
        raise ValueError
    return text
