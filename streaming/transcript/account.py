"""Where the bytes of each connection went: the ledger, as `decode --ledger` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Self

import msgspec

from decoders.schema.registry import Schemas
from decoders.wire.columnar.packets import PacketBatch
from decoders.wire.columnar.tracker import ColumnarTracker
from decoders.wire.ledger import Ledger
from decoders.wire.segment import SocketAddress


class Account(msgspec.Struct, frozen=True):
    """What became of the captured TCP payload, in bytes: captured = framed + skipped, by reason.

    `lost` was never captured. Without client and server it is an account of what belongs to no connection.
    """

    client: str | None
    server: str | None
    captured: int
    framed: int
    skipped: dict[str, int]
    lost: int

    @classmethod
    def of(cls, client: SocketAddress, server: SocketAddress, ledger: Ledger) -> Self:
        """Tell what a connection's ledger says once nothing is pending."""
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
    schemas: Schemas, batches: Iterable[PacketBatch], ports: Collection[int], max_frame: int
) -> Iterator[Account]:
    """Give an account of each connection as it ends, and last one of what belongs to none."""
    ended: list[Account] = []
    tracker = ColumnarTracker(
        schemas,
        ports=ports,
        run=0,
        max_frame=max_frame,
        ended=lambda *connection: ended.append(Account.of(*connection)),
    )
    given = _Sum()
    for batch in batches:
        tracker.feed(batch)
        yield from given.noting(ended)
    tracker.finish()
    yield from given.noting(ended)
    yield given.remainder(tracker.ledger)


class _Sum:
    """All accounts that were given."""

    def __init__(self) -> None:
        self._captured = self._framed = self._lost = 0
        self._skipped: Counter[str] = Counter()

    def noting(self, ended: list[Account]) -> Iterator[Account]:
        """Give the accounts of a list, and leave it empty."""
        for account in ended:
            self._captured += account.captured
            self._framed += account.framed
            self._lost += account.lost
            self._skipped.update(account.skipped)
            yield account
        ended.clear()

    def remainder(self, ledger: Ledger) -> Account:
        """Give what the ledger of the whole capture holds beside them."""
        skipped = {
            name: size for name, total in _skipped(ledger).items() if (size := total - self._skipped[name])
        }
        framed, lost = ledger.framed - self._framed, ledger.lost - self._lost
        return Account(None, None, ledger.captured - self._captured, framed, skipped, lost)


def _skipped(ledger: Ledger) -> dict[str, int]:
    return {str(reason): size for reason, size in sorted(ledger.skipped.items()) if size}
