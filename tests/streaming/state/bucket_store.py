"""The stored values of one bucket between steps, without Spark."""

from __future__ import annotations

from expectations.judging.judge import ConnectionState
from streaming.state.bucket import Bucket, PackedBucket, pack_bucket, unpack_bucket
from streaming.state.connections import Connections


class BucketStore:
    """The two values of a bucket. `contents_reads` counts reads of the contents of its connections."""

    def __init__(self, bucket: Bucket | None = None) -> None:
        self.bucket: bytes | None = None
        self.contents: bytes | None = None
        self.contents_reads = 0
        if bucket is not None:
            self.save(bucket)

    def save(self, bucket: Bucket) -> PackedBucket:
        """Store a bucket, and its contents only if they changed."""
        packed = pack_bucket(bucket)
        self.bucket = packed.bucket
        if packed.contents is not None:
            self.contents = packed.contents
        assert packed.size == len(self.bucket) + len(self.contents or b"")
        return packed

    def load(self) -> Bucket:
        """Return the stored bucket."""
        return unpack_bucket(self.bucket, self._read_contents)

    def _read_contents(self) -> bytes | None:
        self.contents_reads += 1
        return self.contents


def reloaded(bucket: Bucket) -> Bucket:
    """Store a bucket and load it."""
    return BucketStore(bucket).load()


def taken(connections: Connections) -> dict[bytes, ConnectionState]:
    """Take all connections out, and return their states by their IDs."""
    states = [connections.take(place) for place in connections.stored_places()]
    return {state.conversation.connection: state for state in states}


def states_of(connections: Connections) -> dict[bytes, ConnectionState]:
    """Return the states of connections by their IDs; they are put back."""
    states = taken(connections)
    connections.put(list(states.values()))
    return states


def held(bucket: Bucket) -> tuple[object, ...]:
    """Return all that a bucket holds, to be compared. Its connections are taken out."""
    times = bucket.clock, bucket.scheduled, bucket.republished_at, bucket.resumed_at
    return taken(bucket.connections), bucket.answered, bucket.buckets, times
