"""Writes the stored bytes that the test of the layout reads: `make layout`."""

from __future__ import annotations

import msgspec

from streaming.state.bucket import STATE_VERSION
from tests.streaming.state.bucket_store import BucketStore
from tests.streaming.state.test_bucket_layout import LAYOUTS, sample_bucket
from tests.streaming.state.test_identities import LAYOUT, sample

if __name__ == "__main__":
    store = BucketStore(sample_bucket())
    (LAYOUTS / f"version-{STATE_VERSION}.bin").write_bytes(store.bucket or b"")
    (LAYOUTS / f"version-{STATE_VERSION}-contents.bin").write_bytes(store.contents or b"")
    identities = sample()
    LAYOUT.write_bytes(msgspec.msgpack.encode((identities.index, identities.pages)))
