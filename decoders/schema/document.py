"""A JSON object of a schema, read property by property; malformed properties are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from decoders.schema.model import SchemaError, VersionRange

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def is_name(text: str) -> bool:
    """Return whether messages, structs and fields may have this name."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Document:
    """The JSON object of a message, struct or field.

    Every method raises SchemaError for a malformed property. The error names `file` and `where`, the path of
    the field in it ("" for the message).
    """

    properties: Mapping[str, Any]
    file: str
    where: str = ""

    def __contains__(self, name: str) -> bool:
        return name in self.properties

    def get(self, name: str) -> Any:
        """Return a property as it is, None if it is absent."""
        return self.properties.get(name)

    def at(self, where: str) -> Document:
        """Return the same object, with another place named in errors."""
        return Document(self.properties, self.file, where)

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
        if not is_name(name):
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

    def documents(self, name: str) -> list[Document]:
        values = self._list(name)
        if not all(isinstance(value, dict) for value in values):
            raise self.refused(f"an entry of {name} is not a map")
        return [Document(value, self.file, self.where) for value in values]

    def _list(self, name: str) -> list[Any]:
        values = self.properties.get(name, [])
        if not isinstance(values, list):
            raise self.refused(f"{name} is not a list")
        return values
