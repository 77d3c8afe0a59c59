"""The APIs of a release and their versions, with the KIP-1313 overlay if the release needs it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from decoders.protocol import API_VERSIONS
from decoders.schema import header_versions
from decoders.schema.grammar import parse_message
from decoders.schema.header_versions import Layout
from decoders.schema.model import Message, Table, VersionRange
from decoders.schema.overlay import KIP_1313
from decoders.schema.table import COMMITTED_TABLE, messages_of, parse_table, read_table, response_name


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API: its request and response over all versions.

    `versions` are those that the schemas describe, overlay included; empty for an API without versions (keys
    4 to 7 since Kafka 4.0). `release_versions` excludes the overlay and is None if the release has no valid
    version. `unstable_version` is the latest one if its release does not yet guarantee it.
    """

    key: int
    name: str
    request: Message = field(repr=False)
    response: Message = field(repr=False)
    versions: VersionRange
    release_versions: VersionRange | None
    unstable_version: int | None

    def is_overlay(self, version: int) -> bool:
        """Return whether only the overlay has the version."""
        return version in self.versions and not self.is_released(version)

    def is_released(self, version: int) -> bool:
        return self.release_versions is not None and version in self.release_versions

    def is_removed(self, version: int) -> bool:
        """Return whether earlier releases had the version."""
        return 0 <= version < self.versions.lowest

    def shows_header(self, version: int) -> bool:
        """Return whether the request header of a version can be read although the schemas lack its body.

        That is so for ApiVersions at any version (KIP-511), and for versions that earlier releases had: no
        release changes a header that it has published.
        """
        return self.key == API_VERSIONS or self.is_removed(version)

    def request_header_version(self, version: int) -> int:
        """Return the request header version of any version number, known or not."""
        if (
            version > self.versions.highest
            and self.release_versions
            and self.is_overlay(self.versions.highest)
        ):
            version = self.release_versions.highest
        return header_versions.request_header_version(self.request, version)

    def response_header_version(self, version: int) -> int:
        """Return the response header version of any version number, known or not."""
        return header_versions.response_header_version(self.response, version)


@dataclass(frozen=True, slots=True, eq=False)
class Schemas:
    """The APIs by key, and the two headers. `data` holds the schemas of stored records by name.

    `release` names the Kafka release, `digest` its schema files, `overlay` the applied overlay, if any.
    `request_headers` has the request header in each layout that it may have: two with the overlay, of which
    `request_header` is the plain one, and otherwise the one of the release.
    """

    release: str
    digest: str
    overlay: str | None
    request_header: Message = field(repr=False)
    response_header: Message = field(repr=False)
    request_headers: Mapping[Layout, Message] = field(repr=False)
    by_key: Mapping[int, Api] = field(repr=False)
    data: Mapping[str, Message] = field(repr=False)

    @classmethod
    def of(cls, table: Table) -> Schemas:
        """Build the schemas of a table, with the KIP-1313 overlay if it is needed."""
        released = messages_of(table)
        overlay = KIP_1313 if KIP_1313.is_for(table) else None
        known = messages_of(overlay.laid_over(table, Layout.PLAIN)) if overlay else released
        header = known["RequestHeader"]
        layouts = {_layout(header): header}
        if overlay:
            layouts[Layout.TAGGED] = _tagged_header(table)
        requests = [message for message in known.values() if message.kind == "request"]
        apis = [_api(request, known, released) for request in requests]
        return cls(
            release=table["release"],
            digest=table["digest"],
            overlay=overlay.name if overlay else None,
            request_header=header,
            response_header=known["ResponseHeader"],
            request_headers=layouts,
            by_key={api.key: api for api in apis},
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
        """Find an API by its key."""
        return self.by_key.get(key)

    def api_named(self, name: str) -> Api | None:
        """Find an API by the name of its request without `Request`: `ApiVersions`."""
        return next((api for api in self.by_key.values() if api.name == name), None)


def default_schemas() -> Schemas:
    """Load the committed table with its overlay, once per process."""
    return schemas_of(None)


@functools.cache
def schemas_of(text: str | None) -> Schemas:
    """Load a table from its text, None for the committed one; once per process.

    A table travels to other processes as text. Programs are compiled once for each Schemas object, so an
    object that came with every task would be compiled for every task.
    """
    return Schemas.of(read_table(COMMITTED_TABLE) if text is None else parse_table(text, "table"))


def _layout(header: Message) -> Layout:
    names = {field.name: field for field in header.struct.fields}
    carrier = names.get("clientInstanceId")
    return Layout.TAGGED if carrier and carrier.tag is not None else Layout.PLAIN


def _tagged_header(table: Table) -> Message:
    header = [message for message in table["messages"] if message["name"] == "RequestHeader"]
    (amended,) = KIP_1313.laid_over({**table, "messages": header}, Layout.TAGGED)["messages"]
    return parse_message(amended, "RequestHeader.json")


def _api(request: Message, known: Mapping[str, Message], released: Mapping[str, Message]) -> Api:
    assert request.api_key is not None  # the grammar requires one of every request
    release = released[request.name]
    return Api(
        key=request.api_key,
        name=request.name.removesuffix("Request"),
        request=request,
        response=known[response_name(request)],
        versions=request.versions,
        release_versions=release.versions or None,
        unstable_version=release.versions.highest if release.latest_version_unstable else None,
    )
