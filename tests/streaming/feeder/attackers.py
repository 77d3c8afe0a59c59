"""Clients whose packets are slow to track, honest ones, and a server that answers these: own processes."""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import threading
import time
from contextlib import suppress

from tests.decoders.wire.conversation import (
    api_versions,
    api_versions_response,
    metadata,
    metadata_response,
    prefixed,
    request,
)

HONEST, PIPELINING, DRIPPING = "127.0.0.1", "127.0.0.2", "127.0.0.3"
"""The addresses of clients. The server answers the honest ones only."""
CLIENTS, REQUESTS = 20, 25
"""Honest connections, and how many Metadata requests each sends, one after the other."""
PAUSE = 0.0005
"""Seconds between two segments of an attacker: the three together take nearly all of a core."""


def serve(port: int) -> None:
    """Answer ApiVersions and Metadata requests of honest clients; read what others send."""
    server = socket.create_server(("127.0.0.1", port), backlog=1024)
    print("ready", flush=True)
    while True:
        connection, (address, _) = server.accept()
        threading.Thread(target=_answer, args=(connection, address == HONEST), daemon=True).start()


def _answer(connection: socket.socket, is_honest: bool) -> None:
    with connection, suppress(OSError):
        if not is_honest:
            while connection.recv(1 << 16):
                pass
            return
        stream = connection.makefile("rb")
        while head := stream.read(4):
            frame = stream.read(int.from_bytes(head))
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame)
            respond = api_versions_response if api_key == 18 else metadata_response
            connection.sendall(prefixed(respond(correlation_id)))


def converse(port: int) -> None:
    """Exchange the requests of all honest clients."""
    for _ in range(CLIENTS):
        with socket.create_connection(("127.0.0.1", port), source_address=(HONEST, 0)) as client:
            stream = client.makefile("rb")
            for number in range(REQUESTS + 1):
                client.sendall(prefixed(metadata(number) if number else api_versions(0)))
                stream.read(int.from_bytes(stream.read(4)))


def pipeline(port: int) -> None:
    """Pipeline 9,000 requests, and then send what the scalar tracker processes, without end."""
    with socket.create_connection(("127.0.0.1", port), source_address=(PIPELINING, 0)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(b"".join(prefixed(metadata(number)) for number in range(9_000)))
        number = 100_000
        while True:
            client.sendall(prefixed(request("SaslHandshake", 1, number, mechanism="PLAIN")))
            time.sleep(PAUSE)
            number += 1


def drip(port: int) -> None:
    """Send requests byte by byte, each on a socket of its own, without end."""
    while True:
        with socket.create_connection(("127.0.0.1", port), source_address=(DRIPPING, 0)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in prefixed(metadata(1)):
                client.sendall(bytes([byte]))
                time.sleep(PAUSE)


def flood(port: int) -> None:
    """Send SYNs with forged addresses, without end."""
    chosen = random.Random(1)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        while True:
            source = bytes([127, 1 + chosen.randrange(200), *chosen.randbytes(2)])
            ports = chosen.randrange(1024, 65536), port
            header = struct.pack(">HHIIBBHHH", *ports, chosen.getrandbits(32), 0, 80, 2, 64, 0, 0)
            total = sum(struct.unpack(">10H", header)) + 6 + len(header)
            total += sum(struct.unpack(">4H", source + bytes([127, 0, 0, 1])))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            header = header[:16] + struct.pack(">H", ~total & 0xFFFF) + header[18:]
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + source + bytes([127, 0, 0, 1])
            raw.sendto(ip + header, ("127.0.0.1", 0))
            time.sleep(PAUSE)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        if sys.argv[1] not in (serve.__name__, converse.__name__):
            # A small machine has time for the others, too.
            os.nice(10)
        named = {each.__name__: each for each in (serve, converse, pipeline, drip, flood)}
        named[sys.argv[1]](int(sys.argv[2]))
