"""The table of a release's message schemas: its text, and its messages checked as a whole.

The table keeps what affects the encoding (names, types, versions, tags, nullability, defaults) and no prose.
The table of one release is committed as text, so decoding needs no jar.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from decoders.schema.grammar import parse_message
from decoders.schema.model import Message, SchemaError

Table = dict[str, Any]
"""`release`, `digest` (SHA-256 of the schema files) and `messages`, the schemas without prose."""


HEADERS: Final = ("RequestHeader", "ResponseHeader")


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
