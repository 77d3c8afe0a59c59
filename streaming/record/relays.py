"""The relays of one recording: one for each broker, started when the broker becomes known."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO

from decoders.schema.registry import Schemas
from decoders.wire.packet import Packet
from decoders.wire.pcap import PcapWriter
from decoders.wire.segment import LinkType
from streaming.feeder.relay import PLAIN, Encryption, Relay
from streaming.record.passage import RewritingPassage
from streaming.record.rewriting import Address
from streaming.settings.address import address_text


class Relays:
    """Relays in place of the brokers, for one client, which record all traffic. A context manager.

    The packets are written to `stream` as one pcap.
    """

    def __init__(self, schemas: Schemas, stream: BinaryIO, encryption: Encryption = PLAIN) -> None:
        self._schemas, self._encryption = schemas, encryption
        self._stream = stream
        self._writer = PcapWriter(stream, LinkType.ETHERNET)
        self._relays: dict[Address, Address] = {}
        self._warned: set[str] = set()
        self._connections = self._failures = 0
        self._stack = ExitStack()
        # The relays have a thread each, and all of them write packets and start further relays.
        self._writing, self._relaying, self._counting = (threading.Lock() for _ in range(3))

    def __enter__(self) -> Relays:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._stream.flush()

    def address_of(self, broker: Address) -> Address:
        """Return the address of the relay to a broker, which is started on the first call."""
        with self._relaying:
            if broker not in self._relays:
                relay = Relay(
                    broker,
                    self._record,
                    passage=self._passage,
                    encryption=self._encryption,
                    warn=self._note_failure,
                )
                self._relays[broker] = self._stack.enter_context(relay).address
            return self._relays[broker]

    @property
    def trouble(self) -> str:
        """Why nothing was recorded, in one line, "" if a connection reached a broker."""
        brokers, relays = (
            ", ".join(address_text(*address) for address in addresses)
            for addresses in (self._relays, self._relays.values())
        )
        if not self._connections:
            return (
                f"the command opened no connection to the relay at {relays}: give it the address, as "
                "{bootstrap} in the command or from $KIPWATCH_BOOTSTRAP"
            )
        if self._failures == self._connections:
            return f"no broker was reached at {brokers}: see that it runs there, and correct --bootstrap"
        return ""

    def _note_failure(self, warning: str) -> None:
        with self._counting:
            self._failures += 1
        self._warn(warning)

    def _passage(self) -> RewritingPassage:
        with self._counting:
            self._connections += 1
        return RewritingPassage(self._schemas, self.address_of, self._warn)

    def _record(self, packets: list[Packet]) -> None:
        with self._writing:
            for packet in packets:
                self._writer.write(packet)

    def _warn(self, warning: str) -> None:
        """Print each warning once."""
        if warning not in self._warned:
            self._warned.add(warning)
            print(f"kipwatch: {warning}", file=sys.stderr)
