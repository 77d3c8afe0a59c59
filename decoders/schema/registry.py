"""All message schemas of a release: which APIs there are, in which versions, and since when."""

from __future__ import annotations

import functools
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from decoders.schema import header_versions, jar, overlay
from decoders.schema.grammar import parse_message
from decoders.schema.model import Message, SchemaError, VersionRange

COMMITTED_TABLE = Path(__file__).with_name("kafka-4.4.0.json")


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API: its request and response over all versions.

    `versions` holds what the schemas describe, overlay included; it is empty for an API that is
    known without versions (keys 4 to 7 since Kafka 4.0). `release_versions` leaves the overlay out
    and is None when the release has no valid version. `unstable_version` is the latest one when
    its release does not yet promise to keep it.
    """

    key: int
    name: str
    request: Message = field(repr=False)
    response: Message = field(repr=False)
    versions: VersionRange
    release_versions: VersionRange | None
    unstable_version: int | None

    def is_overlay(self, version: int) -> bool:
        """Whether the version is known from the overlay alone."""
        return version in self.versions and not self.is_released(version)

    def is_released(self, version: int) -> bool:
        return self.release_versions is not None and version in self.release_versions

    def request_header_version(self, version: int) -> int:
        """Tell the request header version of any version number, known or not."""
        return header_versions.request_header_version(self.request, version)

    def response_header_version(self, version: int) -> int:
        """Tell the response header version of any version number, known or not."""
        return header_versions.response_header_version(self.response, version)


@dataclass(frozen=True, slots=True, eq=False)
class Schemas:
    """The APIs by key, and the two headers. `data` holds the schemas of stored records by name.

    `release` names the Kafka release, `digest` its schema files, `overlay` the overlay applied, if
    one was.
    """

    release: str
    digest: str
    overlay: str | None
    request_header: Message = field(repr=False)
    response_header: Message = field(repr=False)
    by_key: Mapping[int, Api] = field(repr=False)
    data: Mapping[str, Message] = field(repr=False)

    @classmethod
    def load(cls, path: Path | None = None) -> Schemas:
        """Load the committed table, or the one at `path`: a kafka-clients jar or a table file.

        Raises SchemaError for what cannot be read as either.
        """
        path = path or COMMITTED_TABLE
        return cls.of(jar.read_table(path) if zipfile.is_zipfile(path) else _read_file(path))

    @classmethod
    def of(cls, table: jar.Table) -> Schemas:
        """Build the schemas of a table, with the KIP-1313 overlay where it is needed."""
        released = _messages(table)
        amended = overlay.apply(table) if overlay.is_needed(table) else table
        known = _messages(amended)
        try:
            request_header, response_header = known["RequestHeader"], known["ResponseHeader"]
        except KeyError as error:
            raise SchemaError(f"{error.args[0]}.json", "", "the table lacks it") from None
        apis = [_api(request, known, released) for request in known.values() if request.kind == "request"]
        by_key = {api.key: api for api in apis}
        if len(by_key) < len(apis):
            raise SchemaError(table["release"], "", "two requests have the same apiKey")
        return cls(
            release=table["release"],
            digest=table["digest"],
            overlay=overlay.NAME if amended is not table else None,
            request_header=request_header,
            response_header=response_header,
            by_key=by_key,
            data={message.name: message for message in known.values() if message.kind == "data"},
        )

    @property
    def apis(self) -> tuple[Api, ...]:
        """All APIs in the order of their keys."""
        return tuple(self.by_key[key] for key in sorted(self.by_key))

    @property
    def api_names(self) -> dict[int, str]:
        """The names of all APIs by key."""
        return {api.key: api.name for api in self.apis}

    def api(self, key: int) -> Api | None:
        return self.by_key.get(key)

    def api_named(self, name: str) -> Api | None:
        """Find an API by the name of its request without `Request`: `ApiVersions`."""
        return next((api for api in self.by_key.values() if api.name == name), None)


@functools.cache
def default_schemas() -> Schemas:
    """Load the committed table with its overlay, once per process."""
    return Schemas.load()


def _read_file(path: Path) -> jar.Table:
    try:
        table = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SchemaError(str(path), "", f"neither a jar nor a table of schemas: {error}") from error
    if not isinstance(table, dict) or not {"release", "digest", "messages"} <= table.keys():
        raise SchemaError(str(path), "", "not a table of schemas: release, digest or messages is missing")
    if not all(isinstance(message, dict) for message in table["messages"]):
        raise SchemaError(str(path), "", "not a table of schemas: an entry of messages is not a map")
    return table


def _messages(table: jar.Table) -> dict[str, Message]:
    parsed = [parse_message(message, f"{message.get('name')}.json") for message in table["messages"]]
    return {message.name: message for message in parsed}


def _api(request: Message, known: Mapping[str, Message], released: Mapping[str, Message]) -> Api:
    name = request.name.removesuffix("Request")
    response = known.get(f"{name}Response")
    if response is None or response.api_key != request.api_key:
        raise SchemaError(f"{request.name}.json", "", "no response has its name and apiKey")
    if response.versions != request.versions:
        raise SchemaError(f"{request.name}.json", "", f"its response has versions {response.versions}")
    assert request.api_key is not None  # the grammar demands one of every request
    release = released[request.name]
    return Api(
        key=request.api_key,
        name=name,
        request=request,
        response=response,
        versions=request.versions,
        release_versions=release.versions or None,
        unstable_version=release.versions.highest if release.latest_version_unstable else None,
    )
