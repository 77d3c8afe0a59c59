"""The byte account of each connection, as `decode --ledger` prints it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Self

import msgspec

from decoders.schema.registry import Schemas
from decoders.tls.key_log import KeyLog
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger
from decoders.wire.segment import SocketAddress


class ByteAccount(msgspec.Struct, frozen=True):
    """Bytes of captured TCP payload by fate: captured = framed + the sum of skipped, which is by reason.

    `lost` bytes were never captured. Without client and server it accounts for bytes outside connections.
    """

    client: str | None
    server: str | None
    captured: int
    framed: int
    skipped: dict[str, int]
    lost: int

    @classmethod
    def of(cls, client: SocketAddress, server: SocketAddress, ledger: Ledger) -> Self:
        """Make the account of a connection that has ended, when none of its bytes are pending."""
        ends = str(client.endpoint), str(server.endpoint)
        return cls(*ends, ledger.captured, ledger.framed, _skipped(ledger), ledger.lost)

    @property
    def line(self) -> str:
        """The account as a person reads it."""
        name = f"{self.client} → {self.server}" if self.client else "no connection"
        fates = {"framed": self.framed, **self.skipped}
        sum_of = " + ".join(f"{size} {fate}" for fate, size in fates.items())
        return f"{name}: {self.captured} captured = {sum_of}; {self.lost} lost"


def accounts(
    schemas: Schemas,
    batches: Iterable[PacketBatch],
    ports: Collection[int],
    max_frame: int,
    key_log: KeyLog | None = None,
) -> Iterator[ByteAccount]:
    """Yield the account of each connection when it ends, and last that of bytes outside connections."""
    ended: list[ByteAccount] = []
    tracker = ColumnarTracker(
        schemas,
        ports=ports,
        run=0,
        secret=secrets.token_bytes(),
        max_frame=max_frame,
        key_log=key_log,
        on_end=lambda *connection: ended.append(ByteAccount.of(*connection)),
    )
    total = _Sum()
    for batch in batches:
        tracker.feed(batch)
        yield from total.added(ended)
    tracker.finish()
    yield from total.added(ended)
    yield total.remainder(tracker.ledger)


class _Sum:
    """The sum of all accounts so far."""

    def __init__(self) -> None:
        self._captured = self._framed = self._lost = 0
        self._skipped: Counter[str] = Counter()

    def added(self, ended: list[ByteAccount]) -> Iterator[ByteAccount]:
        """Add the accounts of a list to the sum, yield them, and clear the list."""
        for account in ended:
            self._captured += account.captured
            self._framed += account.framed
            self._lost += account.lost
            self._skipped.update(account.skipped)
            yield account
        ended.clear()

    def remainder(self, ledger: Ledger) -> ByteAccount:
        """Return the account of the bytes that the whole capture's ledger has beyond the accounts so far."""
        skipped = {
            name: size for name, total in _skipped(ledger).items() if (size := total - self._skipped[name])
        }
        framed, lost = ledger.framed - self._framed, ledger.lost - self._lost
        return ByteAccount(None, None, ledger.captured - self._captured, framed, skipped, lost)


def _skipped(ledger: Ledger) -> dict[str, int]:
    return {str(reason): size for reason, size in sorted(ledger.skipped.items()) if size}
