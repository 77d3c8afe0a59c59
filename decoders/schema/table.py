"""The table of a release's message schemas: read from a jar, a text or files, and checked as a whole.

The table keeps what affects the encoding (names, types, versions, tags, nullability, defaults) and no prose.
The table of one release is committed as text, so decoding needs no jar. Others are read from a kafka-clients
jar, a table's text, Kafka's message files, or an overlay of those.

Kafka's message files are JSON with whole-line comments: `common/message/*.json` of a jar, or those of a
folder, such as a checkout of a branch under review. A folder without both headers, or with an
`overlay.json`, is an overlay: its files are laid over those of the release that it names.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from decoders.schema.grammar import KEPT_OF_FIELD, KEPT_OF_MESSAGE, parse_message
from decoders.schema.model import Message, SchemaError, Table
from decoders.schema.overlay import FILE, Overlay

COMMITTED_TABLE: Final = Path(__file__).with_name("kafka-4.4.0.json")
HEADERS: Final = ("RequestHeader", "ResponseHeader")

_IN_JAR: Final = "common/message/"
_IN_CHECKOUT: Final = Path("clients/src/main/resources/common/message")
_RELEASE_OF_JAR: Final = "kafka/kafka-version.properties"
_RELEASE_OF_CHECKOUT: Final = "gradle.properties"
_OMITTED = {"latestVersionUnstable": False, "ignorable": False}
"""Properties that the table omits if they have these values, their defaults."""


def read_table(path: Path) -> Table:
    """Read the table of a kafka-clients jar, a table file, or a folder of message files or of an overlay.

    Raises SchemaError for what cannot be read as any of them.
    """
    if path.is_dir():
        return read_folder(path)
    if zipfile.is_zipfile(path):
        return read_jar(path)
    try:
        text = path.read_text()
    except OSError as error:
        raise SchemaError(str(path), "", f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SchemaError(str(path), "", f"neither a jar nor a table of schemas: {error}") from error
    return parse_table(text, str(path))


def read_jar(path: Path) -> Table:
    """Read the schemas of the jar at `path`.

    Raises SchemaError when it is not a readable kafka-clients jar or a schema in it is not valid.
    """
    try:
        with zipfile.ZipFile(path) as jar:
            names = [name for name in jar.namelist() if name.startswith(_IN_JAR) and name.endswith(".json")]
            files = {name: jar.read(name) for name in sorted(names)}
            properties = jar.read(_RELEASE_OF_JAR) if _RELEASE_OF_JAR in jar.namelist() else b""
    except (OSError, zipfile.BadZipFile) as error:
        raise SchemaError(str(path), "", f"not a readable jar: {error}") from error
    release = _release(properties)
    if not release:
        raise SchemaError(str(path), "", f"{_RELEASE_OF_JAR} does not state the release")
    if not files:
        raise SchemaError(str(path), "", f"holds no {_IN_JAR}*.json: is it a kafka-clients jar?")
    return _table(release, files)


def read_folder(path: Path) -> Table:
    """Read Kafka's message files in a folder or a checkout, laid over their base if they are an overlay.

    Raises SchemaError, which names the file, if one cannot be read or is not valid.
    """
    folder = folder_of(path)
    files = message_files(folder)
    if not is_overlay(folder, files):
        release = _release_of_checkout(folder) or path.resolve().name
        return {
            **_table(release, files),
            "digest": _digest({f"{_IN_JAR}{name}": files[name] for name in files}),
        }
    if not files and not (folder / FILE).exists():
        raise SchemaError(str(path), "", f"holds neither message files (*.json) nor {FILE}")
    return _laid_over_base(folder, files)


def folder_of(path: Path) -> Path:
    """Return the folder of message files of a checkout, or the folder itself."""
    checkout = path / _IN_CHECKOUT
    return checkout if checkout.is_dir() else path


def is_overlay(folder: Path, files: Collection[str]) -> bool:
    """Return whether a folder with these message files changes a release instead of being one."""
    return (folder / FILE).exists() or any(f"{name}.json" not in files for name in HEADERS)


def message_files(folder: Path) -> dict[str, bytes]:
    """Return the message files of a folder by name. Raises SchemaError."""
    if not folder.is_dir():
        raise SchemaError(str(folder), "", "is no folder of message files")
    try:
        paths = sorted(path for path in folder.glob("*.json") if path.name != FILE)
        return {path.name: path.read_bytes() for path in paths}
    except OSError as error:
        raise SchemaError(str(folder), "", f"cannot be read: {error.strerror}") from error


def read_message(name: str, content: bytes) -> dict[str, Any]:
    """Read a message file, without prose. Raises SchemaError if it is not valid."""
    try:
        lines = content.decode().splitlines()
        text = "\n".join("" if line.lstrip().startswith("//") else line for line in lines)
        document = json.loads(text, object_pairs_hook=_consistent)
    except (ValueError, RecursionError) as error:
        raise SchemaError(name, "", f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SchemaError(name, "", "not a map")
    parse_message(document, name)
    return _compact(document, KEPT_OF_MESSAGE)


def base_of(folder: Path) -> Table:
    """Read the table that an overlay is laid over. Raises SchemaError."""
    overlay = Overlay.read(folder)
    try:
        return read_table((folder / overlay.base).resolve() if overlay.base else COMMITTED_TABLE)
    except RecursionError:
        raise SchemaError(str(folder / FILE), "", "its base is laid over the folder itself") from None


def _laid_over_base(folder: Path, files: Mapping[str, bytes]) -> Table:
    overlay, base = Overlay.read(folder), base_of(folder)
    if overlay.readings:
        raise SchemaError(str(folder / FILE), "", "a draft has one reading: write a folder for each")
    drafted = {name: read_message(name, content) for name, content in files.items()}
    messages = {message["name"]: message for message in [*base["messages"], *drafted.values()]}
    own = (folder / FILE).read_bytes() if (folder / FILE).exists() else b""
    return overlay.laid_over(
        {
            "release": f"{base['release']}+{overlay.name}",
            "digest": _digest({"base": base["digest"].encode(), FILE: own, **files}),
            "messages": _in_order(list(messages.values())),
        }
    )


def _table(release: str, files: Mapping[str, bytes]) -> Table:
    messages = [read_message(name, content) for name, content in files.items()]
    return {"release": release, "digest": _digest(files), "messages": _in_order(messages)}


def _in_order(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(
        messages, key=lambda message: (message.get("apiKey", 0x8000), message["type"], message["name"])
    )


def _release_of_checkout(folder: Path) -> str:
    """Return the version in the `gradle.properties` of the checkout that a folder belongs to, if any."""
    for parent in folder.resolve().parents[: len(_IN_CHECKOUT.parts)]:
        if (parent / _RELEASE_OF_CHECKOUT).is_file():
            return _release((parent / _RELEASE_OF_CHECKOUT).read_bytes())
    return ""


def _release(properties: bytes) -> str:
    """Return the version that a properties file states, "" if it states none."""
    for line in properties.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "version":
            return value.strip()
    return ""


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(b"%s\0%d\0" % (name.encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()


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
        if key in document and (key not in _OMITTED or document[key] != _OMITTED[key])
    }
    for struct in document.get("commonStructs", ()):
        compact.setdefault("commonStructs", []).append(_compact(struct, ("name",)))
    if "fields" in document:
        compact["fields"] = [_compact(field, KEPT_OF_FIELD) for field in document["fields"]]
    return compact


def parse_table(text: str, source: str) -> Table:
    """Read a table from text. Raises SchemaError, which names the source, if the text is not a table."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(source, "", f"neither a jar nor a table of schemas: {error}") from error
    if not isinstance(table, dict) or not {"release", "digest", "messages"} <= table.keys():
        raise SchemaError(source, "", "not a table of schemas: release, digest or messages is missing")
    if not isinstance(table["messages"], list) or not all(isinstance(one, dict) for one in table["messages"]):
        raise SchemaError(source, "", "not a table of schemas: an entry of messages is not a map")
    return table


def dump_table(table: Table) -> str:
    """Write a table as JSON text with one message on each line; equal tables give equal texts."""
    lines = ",\n".join(json.dumps(message, separators=(",", ":")) for message in table["messages"])
    head = "".join(f'"{key}": {json.dumps(table[key])},\n' for key in ("release", "digest"))
    return f'{{\n{head}"messages": [\n{lines}\n]\n}}\n'


def messages_of(table: Table) -> dict[str, Message]:
    """Return the messages of a table by name.

    Raises SchemaError if one is not valid, two have the same name, or a header or a response is missing.
    """
    messages: dict[str, Message] = {}
    for document in table["messages"]:
        file = f"{document.get('name')}.json"
        message = parse_message(document, file)
        if message.name in messages:
            raise SchemaError(file, "", "two messages have this name")
        messages[message.name] = message
    for name in HEADERS:
        if name not in messages:
            raise SchemaError(f"{name}.json", "", "the table lacks it")
    _check_pairs(messages)
    return messages


def response_name(request: Message) -> str:
    """Return the name of the message that responds to a request."""
    return f"{request.name.removesuffix('Request')}Response"


def _check_pairs(messages: Mapping[str, Message]) -> None:
    keys = set()
    for request in (message for message in messages.values() if message.kind == "request"):
        file, response = f"{request.name}.json", messages.get(response_name(request))
        if request.api_key in keys:
            raise SchemaError(file, "", f"another request has apiKey {request.api_key} too")
        keys.add(request.api_key)
        if response is None or response.kind != "response" or response.api_key != request.api_key:
            raise SchemaError(file, "", "no response has its name and apiKey")
        if response.versions != request.versions:
            raise SchemaError(file, "", f"its response has versions {response.versions}")
