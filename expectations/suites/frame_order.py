"""What the order of records shows of the frames topic: records that are missing, swapped, or badly timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas

from decoders.frame.record import Kind, Pairing

ORDER_COLUMNS: Final = {"previous_sequence": "UInt64", "set_back": "int64", "lacks_request": "bool"}
"""The columns that are added, and their pandas types.

`previous_sequence` is that of the connection's previous record in the slice, null for its first. `set_back`
is by how many nanoseconds the record was captured before that one, 0 if it was not. `lacks_request` means
that a response is paired with a request that is not there, although earlier records of the connection are.
"""
_CONNECTION: Final = ["connection", "run"]


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
