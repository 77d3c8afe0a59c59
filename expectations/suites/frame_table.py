"""The frames topic as a table: a row per record, with its place, the decoded header, and its order.

`frame_table` makes a row of each record. `with_order` adds what only neighbours show: records that are
missing, swapped, or badly timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pandas

from decoders.codec.request import Request, read_request
from decoders.codec.response import Response, read_response
from decoders.frame.record import Kind, Pairing, Record
from decoders.schema.registry import Schemas

COLUMNS: Final = {
    "partition": "int32",
    "offset": "int64",
    "row": "int32",
    "kind": "string",
    "pairing": "string",
    "closing": "string",
    "connection": "string",
    "run": "uint64",
    "sequence": "uint64",
    "captured_at": "int64",
    "true_length": "int64",
    "captured_length": "int64",
    "api_key": "Int16",
    "api_version": "Int16",
    "header_version": "Int16",
    "correlation_id": "Int32",
    "known": "bool",
    "failure": "string",
    "client": "string",
    "server": "string",
}
"""Every column and its pandas type. Names of enumerations are as in `decoders.frame.record`, the
connection is hex, times are nanoseconds since the epoch; what a record does not hold is null."""
ORDER_COLUMNS: Final = {"previous_sequence": "UInt64", "set_back": "int64", "lacks_request": "bool"}
"""The columns that are added, and their pandas types.

`previous_sequence` is that of the connection's previous record in the slice, null for its first. `set_back`
is by how many nanoseconds the record was captured before that one, 0 if it was not. `lacks_request` means
that a response is paired with a request that is not there, although earlier records of the connection are.
"""
_CONNECTION: Final = ["connection", "run"]


def frame_table(schemas: Schemas, records: Iterable[tuple[int, int, int, Record]]) -> pandas.DataFrame:
    """Return the table of records, each given with its partition, the offset of its block, and its row."""
    rows = [
        {
            "partition": partition,
            "offset": offset,
            "row": row,
            **_captured(record),
            **_decoded(schemas, record),
        }
        for partition, offset, row, record in records
    ]
    return pandas.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _captured(record: Record) -> dict[str, Any]:
    return {
        "kind": record.kind.name,
        "pairing": record.pairing.name,
        "closing": record.closing.name,
        "connection": record.connection.hex(),
        "run": record.run,
        "sequence": record.sequence,
        "captured_at": record.captured_at,
        "true_length": record.true_length,
        "captured_length": len(record.frame),
        "client": str(record.client),
        "server": str(record.server),
    }


def _decoded(schemas: Schemas, record: Record) -> dict[str, Any]:
    frame = _frame(schemas, record)
    if frame is None:
        return {"known": False}
    return {
        "api_key": frame.api_key,
        "api_version": frame.api_version,
        "header_version": frame.header_version,
        "correlation_id": frame.correlation_id,
        "known": frame.known,
        "failure": None if frame.failure is None else frame.failure.reason.value,
    }


def _frame(schemas: Schemas, record: Record) -> Request | Response | None:
    if record.kind is Kind.REQUEST:
        return read_request(schemas, record.frame, cut=record.is_cut)
    if record.kind is Kind.RESPONSE:
        key, version = record.paired_api_key, record.paired_api_version
        return read_response(schemas, record.frame, key, version, cut=record.is_cut)
    return None


def with_order(frames: pandas.DataFrame, paired: Sequence[int]) -> pandas.DataFrame:
    """Add ORDER_COLUMNS to a table of frames. `paired` are the sequences of the requests, by row."""
    groups = frames.groupby(_CONNECTION, sort=False)
    previous, captured_at = groups["sequence"].shift(), groups["captured_at"].shift()
    set_back = (captured_at.fillna(frames["captured_at"]) - frames["captured_at"]).clip(lower=0)
    return frames.assign(
        previous_sequence=previous.astype("UInt64"),
        set_back=set_back.astype("int64"),
        lacks_request=_lacks_request(frames, pandas.Series(paired, index=frames.index, dtype="uint64")),
    )


def _lacks_request(frames: pandas.DataFrame, paired: pandas.Series[int]) -> pandas.Series[bool]:
    is_request = frames["kind"] == Kind.REQUEST.name
    is_matched = (frames["kind"] == Kind.RESPONSE.name) & (frames["pairing"] == Pairing.MATCHED.name)
    first = frames.groupby(_CONNECTION, sort=False)["sequence"].transform("min")
    requests = pandas.MultiIndex.from_frame(frames.loc[is_request, [*_CONNECTION, "sequence"]])
    wanted = pandas.MultiIndex.from_arrays([frames["connection"], frames["run"], paired])
    return (is_matched & (paired > first) & ~wanted.isin(requests)).astype("bool")
