"""What the state store keeps of one bucket from step to step, without Spark."""

from __future__ import annotations

from streaming.state.bucket import Bucket
from streaming.state.bucket_layout import PackedBucket, pack_bucket, unpack_bucket


class Shelf:
    """A bucket's two values. `opened` counts how often the contents of its connections were asked for."""

    def __init__(self, bucket: Bucket | None = None) -> None:
        self.bucket: bytes | None = None
        self.contents: bytes | None = None
        self.opened = 0
        if bucket is not None:
            self.put(bucket)

    def put(self, bucket: Bucket) -> PackedBucket:
        """Store a bucket, and its contents only if these are new."""
        packed = pack_bucket(bucket)
        self.bucket = packed.bucket
        if packed.contents is not None:
            self.contents = packed.contents
        assert packed.size == len(self.bucket) + len(self.contents or b"")
        return packed

    def take(self) -> Bucket:
        """Read it back."""
        return unpack_bucket(self.bucket, self._open)

    def _open(self) -> bytes | None:
        self.opened += 1
        return self.contents


def again(bucket: Bucket) -> Bucket:
    """Give a bucket as it is once it was stored."""
    return Shelf(bucket).take()
