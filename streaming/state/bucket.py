"""A bucket: the connections whose state one Spark key holds.

One round trip to Spark's state store costs about the same for one connection as for hundreds, so connections
share a key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streaming.state.connections import Connections


@dataclass(slots=True)
class Bucket:
    """The connections of one bucket.

    `clock` is the latest capture time seen, in nanoseconds; `scheduled` tells whether the bucket's
    timer runs, which survives a restart as the state does. `answered` holds the API versions of which
    it was told that a server answers them, by cluster and server. `buckets` is how many there are of them,
    0 before that is known, and `resumed_at` when it went on after a loss, in milliseconds.
    """

    connections: Connections = field(default_factory=Connections)
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0
    answered: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    buckets: int = 0
    resumed_at: int = 0
