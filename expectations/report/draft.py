"""What a draft changes in a release: example frames, and the clients and brokers it touches."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from decoders.codec.program import FieldKind, Instruction, Program, compile_message
from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.schema.difference import Difference
from decoders.schema.registry import Api, Schemas
from expectations.report.client import client_text
from expectations.report.fleet import ClientUsage
from expectations.report.versions import AdvertisingBroker

_INSTANCE_ID = bytes(range(1, 17))
_HEADER_WITH_ID = 3
_OF_KIND: Final[Mapping[FieldKind, Any]] = {
    FieldKind.BOOL: True,
    FieldKind.FLOAT64: 1.0,
    FieldKind.UUID: base64.urlsafe_b64encode(_INSTANCE_ID).decode().rstrip("="),
    FieldKind.BYTES: base64.b64encode(b"\1\2\3").decode(),
    FieldKind.RECORDS: "",
}
"""The example of each kind of value that is neither a number nor a text."""


class ExampleExchange(msgspec.Struct, frozen=True):
    """A request of a drafted version with its response: frames in hexadecimal, without length prefixes."""

    api: str
    api_version: int
    request: str
    response: str


class TouchedClient(msgspec.Struct, frozen=True):
    """A client that sends requests of APIs that the draft changes: how many, by name of the API."""

    client_software_name: str | None
    client_software_version: str | None
    client_id: str | None
    requests: dict[str, int]

    @property
    def name(self) -> str:
        """Software and client ID as one text."""
        return client_text((self.client_software_name, self.client_software_version), self.client_id)


class TouchedBroker(msgspec.Struct, frozen=True):
    """A broker, and the versions of the draft's APIs that it advertises: none of the new ones, or some."""

    cluster: str
    address: str
    advertised: dict[str, str]


class DraftReport(msgspec.Struct, frozen=True):
    """What a draft changes, its examples, and whom it touches in captures or an archive."""

    difference: Difference
    examples: tuple[ExampleExchange, ...]
    clients: tuple[TouchedClient, ...]
    brokers: tuple[TouchedBroker, ...]


def draft_report(
    found: Difference,
    drafted: Schemas,
    usage: Iterable[ClientUsage],
    brokers: Iterable[AdvertisingBroker],
) -> DraftReport:
    """Report on a draft, whose difference to its base is `found`, and on the traffic seen."""
    apis = {api.key: api for api in drafted.apis if api.release_versions and _is_changed(api, found)}
    return DraftReport(
        difference=found,
        examples=tuple(exchange for api in apis.values() for exchange in _examples(drafted, api, found)),
        clients=tuple(_touched_clients(usage, apis)),
        brokers=tuple(_touched_brokers(brokers, apis)),
    )


def _is_changed(api: Api, found: Difference) -> bool:
    names = {message.name for message in found.messages}
    return api.name in found.added or bool({api.request.name, api.response.name} & names)


def _examples(schemas: Schemas, api: Api, found: Difference) -> Iterator[ExampleExchange]:
    """Yield an exchange of each new version; of each version if a change leaves the versions as they were."""
    assert api.release_versions is not None
    lowest = api.release_versions.lowest
    for message in found.messages:
        versions = [change.before for change in message.changes if change.what == "versions"]
        if message.name == api.request.name and versions:
            lowest = int(versions[0].split("-")[-1]) + 1
    for version in range(lowest, api.release_versions.highest + 1):
        has_id = api.request_header_version(version) >= _HEADER_WITH_ID
        request = write_request(
            schemas,
            api.key,
            version,
            version,
            "example",
            example_values(compile_message(api.request, version)),
            _INSTANCE_ID if has_id else None,
        )
        response = write_response(
            schemas, api.key, version, version, example_values(compile_message(api.response, version))
        )
        yield ExampleExchange(api.name, version, request.hex(), response.hex())


def _touched_clients(usage: Iterable[ClientUsage], apis: Mapping[int, Api]) -> Iterator[TouchedClient]:
    for client in usage:
        requests: dict[str, int] = {}
        for (key, _), use in client.usage.uses.items():
            if key in apis:
                requests[apis[key].name] = requests.get(apis[key].name, 0) + use.requests
        if requests:
            yield TouchedClient(*client.software, client.client_id, requests)


def _touched_brokers(
    brokers: Iterable[AdvertisingBroker], apis: Mapping[int, Api]
) -> Iterator[TouchedBroker]:
    for broker in brokers:
        advertised: dict[str, Any] = {
            api.name: "{}-{}".format(*broker.ranges[key]) for key, api in apis.items() if key in broker.ranges
        }
        if advertised:
            yield TouchedBroker(broker.cluster, broker.address, advertised)


def example_values(program: Program) -> dict[str, Any]:
    """Return a value for each field: numbers are 1, a text is the field's name, an array has one element.

    The values have the form that the reader returns and the writer takes.
    """
    return {each.name: _example(each) for each in (*program.fields, *program.tagged.values())}


def _example(instruction: Instruction) -> Any:
    if instruction.element is not None:
        return [_example(instruction.element)]
    if instruction.program is not None:
        return example_values(instruction.program)
    if instruction.kind is FieldKind.STRING:
        return instruction.name
    return _OF_KIND.get(instruction.kind, 1)
