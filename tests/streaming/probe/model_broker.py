"""A broker that meets every duty, in a few lines, and whose responses a test may alter."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from decoders.codec.request import Request, read_request
from decoders.codec.response import write_response
from decoders.protocol import API_VERSIONS, INVALID_REQUEST, UNSUPPORTED_VERSION
from decoders.schema.registry import Api, default_schemas
from expectations.conversation.texts import RELEASED_SOFTWARE
from streaming.broker.ports import HOST
from streaming.demo.loopback import LoopbackServer
from streaming.probe.client import send_frame
from streaming.record.rewriting import Alter, ForwardedRequest
from tests.mutations.bodies import response_body

SCHEMAS = default_schemas()
SHORTEST_FRAME, LONGEST_FRAME, HEADER_V3 = 8, 1_000_000, 6
CLUSTER, NODE, REBOOTSTRAP_REQUIRED = "model", 1, 129
MADE_ID = "AAAAAAAAAAAAAAAAAAAACQ"
ZERO = "A" * 22
Body = dict[str, Any]


class ModelBroker(LoopbackServer):
    """Has ApiVersions up to a version; 6 means KIP-1313. Responds `twice` to one. A context manager."""

    def __init__(
        self,
        newest: int = HEADER_V3,
        alter: Alter = lambda _, response: response,
        twice: int | None = None,
    ) -> None:
        super().__init__("model-broker", self._serve)
        self._alter, self._twice = alter, twice
        self._ranges = {
            api.key: (api.versions.lowest, _highest(api, newest)) for api in SCHEMAS.apis if api.versions
        } | {API_VERSIONS: (0, newest)}

    def _serve(self, client: socket.socket) -> None:
        reader, connection = client.makefile("rb"), _Connection(self._ranges, self.address[1])
        try:
            while SHORTEST_FRAME <= (size := int.from_bytes(reader.read(4), signed=True)) <= LONGEST_FRAME:
                request = read_request(SCHEMAS, reader.read(size))
                response = connection.respond(request)
                asked = _asked(request)
                altered = None if response is None else self._alter(asked, response)
                if altered is None:
                    return
                for _ in range(1 + (asked[1:] == ("ApiVersions", self._twice))):
                    send_frame(client, altered)
        except ConnectionError:
            return


def _asked(request: Request) -> ForwardedRequest:
    api = SCHEMAS.api(request.api_key or 0)
    return ForwardedRequest(request.api_key or 0, api.name if api else "", request.api_version or 0)


def _highest(api: Api, newest: int) -> int:
    highest = api.versions.highest
    return highest - (newest < HEADER_V3 and api.is_overlay(highest))


class _Connection:
    """What the broker remembers of one connection: the first request's instance ID."""

    def __init__(self, ranges: Mapping[int, tuple[int, int]], port: int) -> None:
        self._ranges, self._port = ranges, port
        self._instance_id: bytes | None = None

    def respond(self, request: Request) -> bytes | None:
        """Return the response, None to close."""
        lowest, highest = self._ranges.get(request.api_key or 0, (0, -1))
        version = request.api_version or 0
        if request.api_key == API_VERSIONS and not lowest <= version <= highest:
            return self._write(
                request, 0, {"errorCode": UNSUPPORTED_VERSION, "apiKeys": self._listed(API_VERSIONS)}
            )
        if request.failure or request.body is None or request.api is None or not lowest <= version <= highest:
            return None
        return self._write(request, version, self._body(request, request.body, version))

    def _body(self, request: Request, asked: Body, version: int) -> Body:
        assert request.api is not None
        error = self._error(request, asked, version)
        body = response_body(request.api, version, error)
        match request.api.name:
            case "ApiVersions":
                return {"errorCode": error, "apiKeys": self._listed(*self._ranges)}
            case "Metadata":
                broker = {"nodeId": NODE, "host": HOST, "port": self._port}
                return body | {"clusterId": CLUSTER, "brokers": [broker]}
            case "GetTelemetrySubscriptions" if "clientInstanceId" in body:
                given = asked["clientInstanceId"]
                return body | {"clientInstanceId": MADE_ID if given == ZERO else given}
            case "ConsumerGroupHeartbeat" | "ShareGroupHeartbeat" | "StreamsGroupHeartbeat":
                return body | {"memberId": asked["memberId"] or MADE_ID}
        return body

    def _error(self, request: Request, asked: Body, version: int) -> int:
        is_first, identity = self._instance_id is None, request.client_instance_id
        self._instance_id = self._instance_id or identity or b""
        if not is_first and request.header_version == 3 and self._instance_id not in (b"", identity):
            return INVALID_REQUEST
        api = request.api.name if request.api else ""
        if api.endswith("GroupHeartbeat") and not asked["memberId"].strip():
            return 0 if (api, version) == ("ConsumerGroupHeartbeat", 0) else INVALID_REQUEST
        if api != "ApiVersions" or version < 3:
            return 0
        texts = asked["clientSoftwareName"], asked["clientSoftwareVersion"]
        cluster, node = asked.get("clusterId"), asked.get("nodeId", -1)
        if not all(map(RELEASED_SOFTWARE.fullmatch, texts)) or (cluster is None) != (node == -1):
            return INVALID_REQUEST
        return REBOOTSTRAP_REQUIRED if cluster is not None and (cluster, node) != (CLUSTER, NODE) else 0

    def _listed(self, *keys: int) -> list[dict[str, int]]:
        named = {key: self._ranges[key] for key in keys}
        return [{"apiKey": key, "minVersion": low, "maxVersion": high} for key, (low, high) in named.items()]

    @staticmethod
    def _write(request: Request, version: int, body: Body) -> bytes:
        return write_response(SCHEMAS, request.api_key or 0, version, request.correlation_id or 0, body)
