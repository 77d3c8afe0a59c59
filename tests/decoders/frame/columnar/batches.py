"""Records as batches, and random records of any API."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from decoders.frame.columnar.block_reading import BlockBatch, BlockReader
from decoders.frame.columnar.block_writing import write_block
from decoders.frame.record import Direction, Endpoint, Flag, Kind, Pairing, Record
from decoders.schema.registry import Api
from decoders.wire.columnar.frames import FrameBatch
from tests.decoders.codec.samples import damaged, requests, responses

MATCHED_MOSTLY = [Pairing.MATCHED] * 6 + list(Pairing)
ROWS = 1_000
"""The rows of a block of `opened`."""


def block(records: Sequence[Record]) -> bytes:
    """The records as one block, in their order."""
    return write_block(records)


def opened(records: Sequence[Record]) -> BlockBatch:
    """The records written as blocks, then read again."""
    blocks = [block(records[at : at + ROWS]) for at in range(0, len(records), ROWS)]
    (found,) = BlockReader().read(blocks)
    assert not found.refused
    return found


def batch_of(records: Sequence[Record]) -> FrameBatch:
    """The records as a batch whose data may be written to."""
    batch = opened(records).batch
    return dataclasses.replace(batch, data=batch.data.copy())


def record_of(kind: Kind, sequence: int, **what: Any) -> Record:
    """A record of one of a few connections."""
    ends: dict[str, Any] = {"client": Endpoint("10.0.0.1:40000"), "server": Endpoint("10.0.0.2:9092")}
    return Record(
        kind=kind, run=1, sequence=sequence, captured_at=sequence * 1000, position=5, **ends, **what
    )


@st.composite
def traffic(draw: st.DrawFn, api: Api) -> list[Record]:
    """Frames of an API, whole and damaged, each repeated many times, with events between them."""
    versions = st.integers(api.versions.lowest, api.versions.highest)
    asked = versions.flatmap(lambda version: damaged(requests(api, version)))
    told = versions.flatmap(lambda version: damaged(responses(api, version)))
    pool = draw(st.lists(asked | told | versions.flatmap(lambda v: requests(api, v)), min_size=1, max_size=4))
    records: list[Record] = []
    for sequence in range(1, draw(st.integers(1, 25)) + 1):
        sample = draw(st.sampled_from(pool))
        connection = draw(st.sampled_from([b"a" * 16, b"b" * 16]))
        if not draw(st.integers(0, 9)):
            records.append(record_of(draw(st.sampled_from(Kind)), sequence, connection=connection))
            continue
        what: dict[str, Any] = {"connection": connection, "frame": sample.frame}
        what["true_length"] = len(sample.frame) + sample.is_cut
        what["flags"] = draw(st.sampled_from([Flag.NONE, Flag.SETTLED, Flag.INFORMED]))
        if sample.paired is None:
            records.append(record_of(Kind.REQUEST, sequence, direction=Direction.TO_BROKER, **what))
            continue
        what["pairing"] = draw(st.sampled_from(MATCHED_MOSTLY))
        what["paired_sequence"] = draw(st.integers(0, sequence - 1))
        what["paired_api_key"], what["paired_api_version"] = sample.paired
        records.append(record_of(Kind.RESPONSE, sequence, direction=Direction.TO_CLIENT, **what))
    return records
