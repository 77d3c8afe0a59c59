"""The model of Kafka's message schemas: version ranges, fields, structs, messages, and tables of them.

Kafka's message generator defines the schema language (its README is in the kafka-clients jar as
`common/message/README.md`). The model keeps what affects the encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

HIGHEST_VERSION: Final = 0x7FFF
"""The end of an open range such as `3+`: versions are int16 on the wire."""

INTEGER_RANGES: Final = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
FIXED_SIZE_TYPES: Final = frozenset(INTEGER_RANGES) | {"bool", "uuid", "float64"}
PRIMITIVE_TYPES: Final = FIXED_SIZE_TYPES | {"string", "bytes", "records"}
NULLABLE_TYPES: Final = frozenset({"string", "bytes", "records"})
ZERO_UUID: Final = "A" * 22


class SchemaError(ValueError):
    """An invalid schema: the file, the field in it ("" for the message) and the reason."""

    def __init__(self, file: str, field: str, reason: str) -> None:
        where = f"{file}: field {field}" if field else file
        super().__init__(f"{where}: {reason}")
        self.file, self.field, self.reason = file, field, reason

    def __reduce__(self) -> tuple[type[SchemaError], tuple[str, str, str]]:
        return SchemaError, (self.file, self.field, self.reason)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong in a file, at a line of it, counted from 1; 0 if it concerns no single line."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions from `lowest` to `highest`, both included; empty if `highest` is lower."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read `none`, `N`, `N-M` or `N+`. Raises ValueError for anything else."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(_version(text[:-1]), HIGHEST_VERSION)
        lowest, dash, highest = text.partition("-")
        parsed = cls(_version(lowest), _version(highest if dash else lowest))
        if not parsed:
            raise ValueError(f"{text!r} runs backwards")
        return parsed

    @property
    def is_open(self) -> bool:
        return self.highest == HIGHEST_VERSION

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.is_open:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NO_VERSIONS: Final = VersionRange(0, -1)


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= HIGHEST_VERSION):
        raise ValueError(f"{text!r} is not a version")
    return int(text)


HeaderVersions = tuple[tuple[VersionRange, int], ...]
"""Ranges of a message's versions in ascending order, each with the version of its header."""


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a struct.

    `name` is as Kafka's JSON prints it (`memberId`). `type` is a primitive type or `struct`; for an array it
    is the type of the elements. `default` is the value of an absent field in the form the codec uses: None
    for null, `{}` for a struct with all fields at their defaults. `flexible_versions` overrides that of the
    message.
    """

    name: str
    type: str
    versions: VersionRange
    is_array: bool = False
    nullable_versions: VersionRange = NO_VERSIONS
    tagged_versions: VersionRange = NO_VERSIONS
    tag: int | None = None
    flexible_versions: VersionRange | None = None
    default: Any = None
    ignorable: bool = False
    struct: Struct | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """Fields in wire order."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A request, response, header or stored data, over all its versions.

    Messages are compared by identity, so that programs compiled from them can be cached. `header_versions` is
    what the schema states about headers, most often nothing. `deprecated_versions` are those that a later
    release will remove (KIP-896).
    """

    name: str
    kind: str
    versions: VersionRange
    flexible_versions: VersionRange
    struct: Struct
    api_key: int | None = None
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    header_versions: HeaderVersions = ()
    deprecated_versions: VersionRange = NO_VERSIONS

    def is_flexible(self, version: int) -> bool:
        return version in self.flexible_versions


Table = dict[str, Any]
"""The schemas of one release as JSON has them, without prose.

`release`, `digest` (SHA-256 of the schema files) and `messages`.
"""
