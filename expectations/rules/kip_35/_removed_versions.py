"""The versions that Kafka 4.0 removed (KIP-896)."""

from __future__ import annotations

from typing import Final

FIRST_LEFT: Final = {
    0: 3,
    1: 4,
    2: 1,
    8: 2,
    9: 1,
    11: 2,
    19: 2,
    20: 1,
    23: 2,
    27: 1,
    29: 1,
    30: 1,
    31: 1,
    32: 1,
    34: 1,
    35: 1,
    38: 1,
    39: 1,
    40: 1,
    41: 1,
}
"""API key → the first version that Kafka 4.0.0 has. Kafka 4.0.1 took JoinGroup (11) v0 and v1 back."""


def removal(api_key: int, version: int, lowest: int) -> str:
    """Return what removed a version below a broker's range, empty if that is not known.

    It is known if the range begins where Kafka 4.0 begins; a broker with another range is another one.
    """
    is_removed = version < lowest == FIRST_LEFT.get(api_key)
    return "; Kafka 4.0 removed the versions below (KIP-896)" if is_removed else ""
