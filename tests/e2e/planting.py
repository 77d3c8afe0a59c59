"""Plants the offences of the demo, one a connection, each from an address of its own."""

from __future__ import annotations

from decoders.schema.registry import default_schemas
from streaming.demo.offences import PLANTED, PlantedOffence, play
from streaming.probe.client import InstanceClient, new_instance_id
from streaming.record.rewriting import Address


def plant(address: Address, settle: float, network: str = "127.0.1") -> dict[str, PlantedOffence]:
    """Play every offence at a front; returns them by the address of the client that played each.

    `settle` is how many seconds pass until a response has certainly been read. Clients of one host and name
    are taken for one client that comes back, so a second time needs another network.
    """
    played = {}
    for number, planted in enumerate(PLANTED, 1):
        host = f"{network}.{number}"
        with InstanceClient(default_schemas(), address, planted.client_id, new_instance_id(), host) as client:
            played[client.address] = planted
            play(planted, client, settle)
    return played
