"""What Kafka's own generator requires of `headerVersions` beyond the text of KIP-1313.

A schema that breaks these rules can still be used, so they are remarks and refuse nothing. They say that
Kafka's build would not have accepted the schemas of an imported release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from decoders.protocol import API_VERSIONS
from decoders.schema.model import Message, VersionRange


@dataclass(frozen=True, slots=True)
class SchemaRemark:
    """Something odd in the schema of a message."""

    message: str
    reason: str

    def __str__(self) -> str:
        return f"{self.message}.json: {self.reason}"


def remarks(messages: Mapping[str, Message]) -> list[SchemaRemark]:
    """Check the `headerVersions` of a table's messages against the stricter rules.

    `messages` are those of a whole table by name. A message without `headerVersions` is skipped.
    """
    return [
        SchemaRemark(message.name, f"headerVersions: {reason}")
        for message in messages.values()
        if message.header_versions
        for reason in _reasons(message, messages[_header_of(message)])
    ]


def _header_of(message: Message) -> str:
    return "RequestHeader" if message.kind == "request" else "ResponseHeader"


def _reasons(message: Message, header: Message) -> Iterator[str]:
    first = message.header_versions[0][0]
    if first.lowest > 0:
        yield f"the first range, {first}, does not start at version 0"
    for (_, before), (versions, after) in pairwise(message.header_versions):
        if after < before:
            yield f"from versions {versions} on, the header goes back from {before} to {after}"
    for versions, used in message.header_versions:
        yield from _reasons_of_range(message, versions, used, header)


def _reasons_of_range(message: Message, versions: VersionRange, used: int, header: Message) -> Iterator[str]:
    if message.kind == "response" and message.api_key == API_VERSIONS:
        if used != 0:
            yield f"versions {versions} use header {used}: this response has header 0 at every version"
    # A header version that is no longer valid may serve message versions that are not valid either.
    elif used not in header.versions and _overlap(versions, message.versions):
        yield f"versions {versions} use header {used}, and {header.name} has only {header.versions}"
    elif _overlap(versions, message.flexible_versions) and not header.is_flexible(used):
        yield f"versions {versions} hold a flexible one, and header {used} is not"


def _overlap(one: VersionRange, other: VersionRange) -> bool:
    return max(one.lowest, other.lowest) <= min(one.highest, other.highest)
