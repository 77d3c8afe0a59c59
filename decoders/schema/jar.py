"""Reads the message schemas of a kafka-clients jar into the table that is committed.

The jar has them as `common/message/*.json`: JSON with whole-line comments. The table keeps what affects the
encoding (names, types, versions, tags, nullability, defaults) and no prose.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from decoders.schema.grammar import parse_message
from decoders.schema.model import SchemaError
from decoders.schema.table import Table

_FOLDER = "common/message/"
_RELEASE_FILE = "kafka/kafka-version.properties"
_KEPT_OF_MESSAGE = (
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
_KEPT_OF_FIELD = (
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
_MEANS_NOTHING = {"latestVersionUnstable": False, "ignorable": False}


def read_jar(path: Path) -> Table:
    """Read the schemas of the jar at `path`.

    Raises SchemaError when it is not a readable kafka-clients jar or a schema in it is not valid.
    """
    try:
        with zipfile.ZipFile(path) as jar:
            names = sorted(name for name in jar.namelist() if _is_schema(name))
            files = {name: jar.read(name) for name in names}
            release = _release(jar, path)
    except (OSError, zipfile.BadZipFile) as error:
        raise SchemaError(str(path), "", f"not a readable jar: {error}") from error
    if not files:
        raise SchemaError(str(path), "", f"holds no {_FOLDER}*.json: is it a kafka-clients jar?")
    messages = [_message(name, content) for name, content in files.items()]
    messages.sort(key=lambda message: (message.get("apiKey", 0x8000), message["type"], message["name"]))
    return {"release": release, "digest": _digest(files), "messages": messages}


def _is_schema(name: str) -> bool:
    return name.startswith(_FOLDER) and name.endswith(".json")


def _release(jar: zipfile.ZipFile, path: Path) -> str:
    try:
        lines = jar.read(_RELEASE_FILE).decode().splitlines()
    except (KeyError, UnicodeDecodeError):
        lines = []
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "version" and value.strip():
            return value.strip()
    raise SchemaError(str(path), "", f"{_RELEASE_FILE} does not state the release")


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(b"%s\0%d\0" % (name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()


def _message(name: str, content: bytes) -> dict[str, Any]:
    try:
        lines = content.decode().splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
        document = json.loads(text, object_pairs_hook=_consistent)
    except (ValueError, RecursionError) as error:
        raise SchemaError(name, "", f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SchemaError(name, "", "not a map")
    parse_message(document, name)
    return _compact(document, _KEPT_OF_MESSAGE)


def _consistent(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Kafka 3.9 states a property twice with the same value. Two different values would be ambiguous.
    properties = dict(pairs)
    for name, value in pairs:
        if properties[name] != value:
            raise ValueError(f"property {name!r} is there twice, as {value!r} and {properties[name]!r}")
    return properties


def _compact(document: dict[str, Any], kept: tuple[str, ...]) -> dict[str, Any]:
    compact = {
        key: document[key]
        for key in kept
        if key in document and (key not in _MEANS_NOTHING or document[key] != _MEANS_NOTHING[key])
    }
    for struct in document.get("commonStructs", ()):
        compact.setdefault("commonStructs", []).append(_compact(struct, ("name",)))
    if "fields" in document:
        compact["fields"] = [_compact(field, _KEPT_OF_FIELD) for field in document["fields"]]
    return compact
