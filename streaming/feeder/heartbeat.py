"""The feeder's heartbeat: a record that says how far its capture clock has come."""

from __future__ import annotations

import hashlib
import itertools

from decoders.frame.record import Endpoint, Kind, Record

INTERVAL = 5.0
"""Seconds between two heartbeats."""
_NOWHERE = Endpoint("0.0.0.0:0")


class Heartbeat:
    """Makes the heartbeats of one run. They belong to no connection, and have an ID of their own."""

    def __init__(self, run: int, cluster: str, feeder: str) -> None:
        self._run, self._cluster, self._feeder = run, cluster, feeder
        self._numbers = itertools.count(1)
        named = "\0".join(("heartbeat", cluster, feeder, str(run)))
        self._connection = hashlib.blake2b(named.encode(), digest_size=16).digest()

    def at(self, captured_at: int) -> Record:
        """Say that everything captured before a time, in nanoseconds since the epoch, was read."""
        return Record(
            kind=Kind.HEARTBEAT,
            connection=self._connection,
            run=self._run,
            sequence=next(self._numbers),
            captured_at=captured_at,
            client=_NOWHERE,
            server=_NOWHERE,
            cluster=self._cluster,
            feeder=self._feeder,
        )
