"""Sends a request with a tagged field of its own, encoded by the library."""

from __future__ import annotations

import socket
import sys

from kafka.protocol.api_versions import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol

OWN_TAG, VALUE = 5, b"rack 7"


def main() -> int:
    host, _, port = sys.argv[1].rpartition(":")
    request = ApiVersionsRequest[3](
        client_software_name="kafka-python",
        client_software_version="2.3",
        _tagged_fields={OWN_TAG: VALUE},
    )
    protocol = KafkaProtocol(client_id="kafka-python-tags")
    protocol.send_request(request)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(protocol.send_bytes())
        return 0 if connection.recv(1) else 1


if __name__ == "__main__":
    sys.exit(main())
