"""Packets of a real capture and of a conversation, with some of them changed, lost, repeated or moved."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from decoders.frame.record import NO_TIME
from decoders.wire.pcap import PcapReader
from decoders.wire.segment import Packet
from tests.decoders.wire.conversation import EVENTS, packets_of
from tests.decoders.wire.links import LINKS, carried
from tests.repository.tree import ROOT

CAPTURE = ROOT / "tests" / "captures" / "real_clients.pcap"
Mutation = Callable[[Random, list[Packet]], None]


def flip_bytes(random: Random, packets: list[Packet]) -> None:
    """Flip bytes anywhere in some packets, most often in the headers."""
    for _ in range(random.randrange(1, 20)):
        index = random.randrange(len(packets))
        data = bytearray(packets[index].data)
        for _ in range(random.randrange(4) if data else 0):
            place = random.randrange(random.choice([20, 54, len(data)])) % len(data)
            data[place] ^= random.randrange(1, 256)
        packets[index] = packets[index]._replace(data=bytes(data))


def cut(random: Random, packets: list[Packet]) -> None:
    index = random.randrange(len(packets))
    kept = random.randrange(len(packets[index].data) + 1)
    packets[index] = packets[index]._replace(data=packets[index].data[:kept])


def claim_another_length(random: Random, packets: list[Packet]) -> None:
    index = random.randrange(len(packets))
    packets[index] = packets[index]._replace(original_length=random.randrange(1 << 32))


def drop(random: Random, packets: list[Packet]) -> None:
    if len(packets) > 1:
        del packets[random.randrange(len(packets))]


def repeat(random: Random, packets: list[Packet]) -> None:
    packets.insert(random.randrange(len(packets)), random.choice(packets))


def swap(random: Random, packets: list[Packet]) -> None:
    one, other = random.randrange(len(packets)), random.randrange(len(packets))
    packets[one], packets[other] = packets[other], packets[one]


def shift_time(random: Random, packets: list[Packet]) -> None:
    index = random.randrange(len(packets))
    packets[index] = packets[index]._replace(captured_at=random.randrange(NO_TIME))


def change_link(random: Random, packets: list[Packet]) -> None:
    index = random.randrange(len(packets))
    packets[index] = carried(packets[index], random.choice(list(LINKS)))


MUTATIONS: tuple[Mutation, ...] = (
    flip_bytes,
    cut,
    claim_another_length,
    drop,
    repeat,
    swap,
    shift_time,
    change_link,
)


def originals() -> list[list[Packet]]:
    with CAPTURE.open("rb") as stream:
        captured = list(PcapReader(stream))
    return [captured, packets_of(EVENTS, segment=50), packets_of(EVENTS)]


def mutated(random: Random, packets: list[Packet]) -> list[Packet]:
    start = random.randrange(len(packets) // 2)
    packets = packets[start : start + random.randrange(10, 200)]
    for _ in range(random.randrange(1, 12)):
        random.choice(MUTATIONS)(random, packets)
    return packets
