"""Makes `planted.pcap`: `python -m tests.captures.planted`, as root, with tcpdump installed.

The demo's KIP-1313 client and its planted offences, one a connection, against the demo's front.
"""

from __future__ import annotations

from decoders.schema.registry import default_schemas
from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.front import Front
from streaming.demo.offences import CLIENT_ID, PLANTED, play
from streaming.demo.workload import converse
from streaming.probe.client import InstanceClient, new_instance_id
from tests.captures.recording import FOLDER, recorded

CAPTURE = FOLDER / "planted.pcap"
SETTLE = 1.2
"""Seconds after which a request was surely sent after the response before it."""


def main() -> None:
    schemas = default_schemas()
    with EmbeddedBroker() as broker, Front(schemas, ("127.0.0.1", broker.ports.internal)) as front:
        address = front.address

        def client(client_id: str) -> InstanceClient:
            return InstanceClient(schemas, address, client_id, new_instance_id())

        with recorded(address[1], CAPTURE.name):
            with client(CLIENT_ID) as conforming:
                converse(conforming)
            for planted in PLANTED:
                with client(planted.client_id) as offending:
                    play(planted, offending, SETTLE)


if __name__ == "__main__":
    main()
