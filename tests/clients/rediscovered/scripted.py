"""A scripted broker: it serves the versions that it is told to know, and closes upon others as Kafka does.

It stands for brokers and proxies that cannot be had here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from decoders.codec.request import Request, read_request
from decoders.codec.response import write_response
from decoders.protocol import API_VERSIONS, UNSUPPORTED_VERSION
from decoders.schema.registry import Schemas, default_schemas
from streaming.broker.ports import HOST, free_ports
from streaming.demo.loopback import LoopbackServer
from streaming.probe.client import read_frame
from tests.clients.rediscovered.bug import Server
from tests.mutations.script import prefixed

Body = Mapping[str, Any]


class ScriptedBroker:
    """What a broker responds: frames in and out, both without their length."""

    def __init__(self, schemas: Schemas, server: Server, port: int) -> None:
        self._schemas, self._refusal = schemas, server.refusal
        self._knows = {_key(schemas, name): versions for name, versions in server.knows.items()}
        self._answers = {_key(schemas, name): body for name, body in _itself(port).items()}
        self._answers |= {_key(schemas, name): body for name, body in server.answers.items()}
        self._answers[API_VERSIONS] = {"apiKeys": [_range(key, *self._knows[key]) for key in self._knows]}

    def respond(self, frame: bytes) -> bytes | None:
        """Return the response to a request, or None to close the connection."""
        request = read_request(self._schemas, frame)
        lowest, highest = self._knows.get(request.api_key, (0, -1))
        if lowest <= request.api_version <= highest:
            body = self._answers.get(request.api_key, {})
            return None if request.failure else self._write(request, request.api_version, body)
        return self._write(request, 0, self._refuse(request)) if request.api_key == API_VERSIONS else None

    def _write(self, request: Request, version: int, body: Body) -> bytes:
        return write_response(self._schemas, request.api_key, version, request.correlation_id or 0, body)

    def _refuse(self, request: Request) -> Body:
        lowest, highest = self._knows[API_VERSIONS]
        offered = {
            "range": [_range(API_VERSIONS, lowest, highest)],
            "empty": [],
            "newer": [_range(API_VERSIONS, lowest, request.api_version)],
        }
        return {"errorCode": UNSUPPORTED_VERSION, "apiKeys": offered[self._refusal]}


def _itself(port: int) -> Mapping[str, Body]:
    """The only broker of its cluster, and the coordinator of each group."""
    broker = {"nodeId": 1, "host": HOST, "port": port}
    return {
        "Metadata": {"brokers": [broker], "clusterId": "scripted", "controllerId": 1},
        "FindCoordinator": broker,
    }


def _key(schemas: Schemas, name: str) -> int:
    api = schemas.api_named(name)
    if api is None:
        raise ValueError(f"there is no API {name}")
    return api.key


def _range(key: int, lowest: int, highest: int) -> dict[str, int]:
    return {"apiKey": key, "minVersion": lowest, "maxVersion": highest}


@contextmanager
def scripted(server: Server) -> Iterator[int]:
    """Let a scripted broker listen on a free port, which is yielded."""
    [port] = free_ports(1)
    broker = ScriptedBroker(default_schemas(), server, port)

    def serve(client: socket.socket) -> None:
        with suppress(ConnectionError):
            while (frame := read_frame(client)) and (response := broker.respond(frame)):
                client.sendall(prefixed(response))

    with LoopbackServer("scripted-broker", serve, port):
        yield port
