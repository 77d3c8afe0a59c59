"""The feeder's heartbeats: records of how far its capture clock has advanced."""

from __future__ import annotations

import hashlib
import itertools

from decoders.frame.record import Endpoint, Kind, Record

INTERVAL = 5.0
"""Seconds between two heartbeats."""
_NO_ENDPOINT = Endpoint("0.0.0.0:0")


class FeederHeartbeats:
    """Makes the heartbeats of one run. They share a connection ID, which is that of no connection."""

    def __init__(self, run: int, cluster: str, feeder: str) -> None:
        self._run, self._cluster, self._feeder = run, cluster, feeder
        self._numbers = itertools.count(1)
        named = "\0".join(("heartbeat", cluster, feeder, str(run)))
        self._connection = hashlib.blake2b(named.encode(), digest_size=16).digest()

    def at(self, captured_at: int) -> Record:
        """Make a heartbeat: all packets captured before a time, in nanoseconds since the epoch, were read."""
        return Record(
            kind=Kind.HEARTBEAT,
            connection=self._connection,
            run=self._run,
            sequence=next(self._numbers),
            captured_at=captured_at,
            client=_NO_ENDPOINT,
            server=_NO_ENDPOINT,
            cluster=self._cluster,
            feeder=self._feeder,
        )
