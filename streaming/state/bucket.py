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

    `clock` is the latest capture time, in nanoseconds. `scheduled` tells whether the bucket's timer runs,
    which survives a restart like the state. `republished_at` and `resumed_at`, when the bucket resumed after
    a loss of frames, are in milliseconds. `answered` holds the API versions that each server is known to
    answer, by cluster and server. `buckets` is the number of buckets, 0 before it is known.
    """

    connections: Connections = field(default_factory=Connections)
    clock: int = 0
    scheduled: bool = False
    republished_at: int = 0
    answered: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    buckets: int = 0
    resumed_at: int = 0
