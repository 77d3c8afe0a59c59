"""The equation of the byte ledger."""

from __future__ import annotations

from decoders.wire.ledger import Ledger


def balances(ledger: Ledger) -> bool:
    """Whether every captured byte is booked exactly once."""
    return ledger.captured == ledger.framed + ledger.skipped.total() + ledger.pending
