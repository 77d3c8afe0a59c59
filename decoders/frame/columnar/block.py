"""The block: one record of the frames topic, which holds the frames of many connections as columns.

A block is an Arrow IPC stream with one record batch, whose buffers Arrow compresses with lz4, so pyarrow,
polars and DuckDB read it. Each row is a frame or an event of a connection, in order. Columns have the names
and meanings of the fields of `Record`, with two exceptions. Numbers that rise from row to row are stored as
steps from the row before, in which lz4 finds repetitions. Values that many rows share are stored once, in
dictionaries: a connection's ID with its client in one, servers, clusters and feeders in others, because
offsets of strings beside each connection would take more bytes than the strings. The schema's metadata names
the version of this format.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

FORMAT_VERSION: Final = 2
VERSION_HEADER: Final = "kipwatch-block"
"""Header of the Kafka record, and key of the schema's metadata: the version in decimal digits."""
SCHEMAS_KEY: Final = "kipwatch-schemas"
"""Key of the schema's metadata: the digest of the Kafka schemas by which the feeder read the frames."""
FRAMES_HEADER: Final = "kipwatch-frames"
"""Header of the Kafka record: the number of rows in decimal digits."""
MOST_FRAMES: Final = 4_096
"""The most rows of a block."""
MOST_BYTES: Final = 512 * 1024
"""The most bytes of frames in a block, unless its only frame is longer."""
ID_BYTES: Final = 16
"""The length of a connection's ID."""

_SPEAKER: Final = pa.struct(
    [pa.field("id", pa.binary(ID_BYTES), nullable=False), pa.field("client", pa.utf8(), nullable=False)]
)
_CODE: Final = pa.int16()
_NAME: Final = pa.dictionary(_CODE, pa.utf8())
CAPTURE_TIME: Final = pa.timestamp("ns", "UTC")
COLUMNS: Final = {
    "connection": pa.dictionary(_CODE, _SPEAKER),
    "server": _NAME,
    "cluster": _NAME,
    "feeder": _NAME,
    "run": pa.uint64(),
    "sequence_step": pa.int64(),
    "captured_at": CAPTURE_TIME,
    "kind": pa.uint8(),
    "direction": pa.uint8(),
    "pairing": pa.uint8(),
    "closing": pa.uint8(),
    "flags": pa.uint8(),
    "paired_distance": pa.int64(),
    "paired_api_key": pa.int16(),
    "paired_api_version": pa.int16(),
    "position_step": pa.int64(),
    "true_length": pa.int64(),
    "frame": pa.binary(),
}
"""The columns of a block by name. Kinds and the like are numbers of the enumerations in `record.py`.

`sequence_step` and `position_step` are the differences of `sequence` and `position` to the row before, in the
first row their values. `paired_distance` is `sequence - paired_sequence`, 0 if there is no paired record.
"""
SCHEMA: Final = pa.schema(
    [pa.field(name, type_, nullable=False) for name, type_ in COLUMNS.items()],
    metadata={VERSION_HEADER: str(FORMAT_VERSION)},
)
OF_FRAMES: Final = {
    "kind": "kinds",
    "direction": "directions",
    "pairing": "pairings",
    "flags": "flags",
    "paired_api_key": "paired_api_keys",
    "paired_api_version": "paired_api_versions",
    "sequence": "sequences",
    "paired_sequence": "paired_sequences",
    "captured_at": "captured_at",
    "position": "positions",
    "true_length": "true_lengths",
}
"""The fields of a record that are a frame's own, not its connection's, with their names in `FrameColumns`."""


class BlockError(ValueError):
    """The bytes are no block of this format. The message is one line."""


def headers_of(rows: int) -> list[tuple[str, bytes]]:
    """Return the headers of the Kafka record of a block."""
    return [(VERSION_HEADER, b"%d" % FORMAT_VERSION), (FRAMES_HEADER, b"%d" % rows)]
