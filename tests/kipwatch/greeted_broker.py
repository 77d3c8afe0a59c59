"""A broker that knows ApiVersions alone, and what clients greet it with: as they should, or not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from decoders.codec.request import read_request, write_request
from decoders.codec.response import write_response
from decoders.protocol import API_VERSIONS, INVALID_REQUEST
from decoders.schema.registry import default_schemas
from streaming.demo.loopback import LoopbackServer
from streaming.probe.client import read_frame
from streaming.settings.address import address_text
from tests.exchange import SOFTWARE, advertisement
from tests.mutations.script import prefixed

NAMES = {"well": "tester", "badly": "RP Console"}
BROKEN = "kip511/software-name-malformed"
"""The rule that the second name breaks."""
VERSION = 4


@contextmanager
def greeted_broker() -> Iterator[str]:
    """Run the broker; yields its `host:port`."""
    with LoopbackServer("greeted-broker", _respond) as broker:
        yield address_text(*broker.address)


def greeting(name: str) -> bytes:
    """An ApiVersions request with a software name, length included."""
    claim = SOFTWARE | {"clientSoftwareName": name}
    return prefixed(write_request(default_schemas(), API_VERSIONS, VERSION, 1, "app", claim))


def _respond(client: socket.socket) -> None:
    schemas = default_schemas()
    while frame := read_frame(client):
        request = read_request(schemas, frame)
        assert request.correlation_id is not None and request.body is not None
        is_well = request.body["clientSoftwareName"] == NAMES["well"]
        advertised = advertisement(0 if is_well else INVALID_REQUEST)
        response = write_response(schemas, API_VERSIONS, VERSION, request.correlation_id, advertised)
        client.sendall(prefixed(response))
