"""Reads one message schema from its JSON, and refuses what the schema language does not allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from decoders.schema.defaults import parse_default
from decoders.schema.document import Document, is_name
from decoders.schema.header_versions import parse_header_versions
from decoders.schema.model import (
    NO_VERSIONS,
    NULLABLE_TYPES,
    PRIMITIVE_TYPES,
    Field,
    HeaderVersions,
    Message,
    Struct,
    VersionRange,
)

KINDS: Final = frozenset({"request", "response", "header", "data"})
_OF_MESSAGE: Final = frozenset(
    {"name", "type", "apiKey", "validVersions", "flexibleVersions", "headerVersions", "listeners"}
    | {"latestVersionUnstable", "deprecatedVersions", "commonStructs", "fields"}
)
_OF_REQUEST: Final = ("listeners", "latestVersionUnstable")
_OF_FIELD: Final = frozenset(
    {"name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "flexibleVersions", "default"}
    | {"ignorable", "fields", "mapKey", "entityType", "zeroCopy", "about"}
)
_OF_STRUCT: Final = frozenset({"name", "versions", "fields", "about"})


def parse_message(properties: Mapping[str, Any], file: str) -> Message:
    """Return the message that a schema describes. Raises SchemaError, which names `file`."""
    document = Document(properties, file)
    try:
        return _Parser(document).message()
    except RecursionError:
        raise document.refused("its fields are nested too deeply") from None


class _Parser:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._flexible = NO_VERSIONS
        self._common: dict[str, Document] = {}

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
        if kind not in KINDS:
            raise document.refused(f"type {kind!r} is not one of {', '.join(sorted(KINDS))}")
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

    def _struct(self, document: Document, path: tuple[str, ...]) -> Struct:
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
        return Struct(str(document.get("name") or ""), fields)

    def _field(self, document: Document, path: tuple[str, ...]) -> Field:
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

    def _struct_of(self, document: Document, name: str, path: tuple[str, ...]) -> Struct | None:
        if name in PRIMITIVE_TYPES:
            if document.get("fields"):
                raise document.refused(f"a field of type {document.get('type')} has no fields of its own")
            return None
        if not name[:1].isupper() or not is_name(name):
            raise document.refused(f"type {document.get('type')!r} is not known")
        common = self._common.get(name)
        if "fields" in document:
            if common:
                raise document.refused(f"struct {name} is a common struct, and defined here too")
            return self._struct(Document({**document.properties, "name": name}, document.file), path)
        if common is None:
            raise document.refused(f"struct {name} is defined nowhere")
        # The path has the types of the structs around this one as `<name>`. A struct that contains itself
        # would have no end.
        if f"<{name}>" in path:
            raise document.refused(f"struct {name} contains itself")
        return self._struct(common, (*path, f"<{name}>"))

    def _tag(
        self, document: Document, versions: VersionRange, tagged: VersionRange, nullable: VersionRange
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


def _nullable(document: Document, type_: str) -> VersionRange:
    nullable = document.versions("nullableVersions", NO_VERSIONS)
    if nullable and type_ in PRIMITIVE_TYPES - NULLABLE_TYPES:
        raise document.refused(f"a field of type {type_} cannot be null")
    return nullable


def _override(document: Document, type_: str) -> VersionRange | None:
    if document.truth("zeroCopy") and type_ != "bytes":
        raise document.refused("only bytes fields may be zeroCopy")
    if "flexibleVersions" not in document:
        return None
    if type_.removeprefix("[]") not in ("string", "bytes"):
        raise document.refused("only string and bytes fields may have flexibleVersions of their own")
    return document.versions("flexibleVersions")


def _default(document: Document, type_: str, versions: VersionRange, nullable: VersionRange) -> Any:
    always_nullable = nullable.lowest <= versions.lowest and nullable.highest >= versions.highest
    try:
        return parse_default(type_, document.get("default"), always_nullable=always_nullable)
    except ValueError as error:
        raise document.refused(str(error)) from error
