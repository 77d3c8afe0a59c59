"""What the columnar reader returns, as Python values."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from decoders.codec.columnar.frames import LAYOUTS, ODDITIES, REASONS, DecodedFrames
from decoders.codec.columnar.head import TAGGED_LAYOUT
from decoders.codec.columnar.projection import Column, ValueType
from decoders.codec.request import ZERO_INSTANCE_ID


def head_of(decoded: DecodedFrames, number: int) -> dict[str, Any]:
    """What is said of a frame, None for what it does not have."""
    head = {name: decoded.heads[name][number].item() for name in decoded.heads.dtype.names or ()}
    reason = head["failure_reason"]
    return {
        "known": head["known"],
        "has_body": head["has_body"],
        "api": (head["api_key"], head["api_version"]),
        "header_version": _unless_negative(head["header_version"]),
        "correlation_id": head["correlation_id"] if head["has_correlation_id"] else None,
        "client_id": _bytes(decoded, head["client_id_begin"], head["client_id_length"]),
        "layout": LAYOUTS[head["layout"]],
        "client_instance_id": _bytes(decoded, head["client_instance_id_begin"], 16)
        or (ZERO_INSTANCE_ID if head["layout"] == TAGGED_LAYOUT else None),
        "body_version": _unless_negative(head["body_version"]),
        "failure": None
        if reason < 0
        else (REASONS[reason], decoded.paths[head["failure_path"]], head["failure_offset"]),
        "remarks": [
            (ODDITIES[oddity], decoded.paths[path], offset)
            for _, oddity, path, offset in _rows_of(decoded.remarks, number)
        ],
    }


def heads_of(decoded: DecodedFrames, name: str) -> list[Any]:
    """One thing that is said of every frame."""
    return [head_of(decoded, number)[name] for number in range(len(decoded.frames))]


def values_of(decoded: DecodedFrames, number: int) -> dict[str, list[Any]]:
    """The values of a frame by column, without empty ones: bytes, or the number that was found."""
    values: dict[str, list[Any]] = {}
    for _, at, value, length in _rows_of(decoded.found, number):
        column = decoded.columns[at]
        is_place = column.type in (ValueType.BYTES, ValueType.UUID)
        found = _bytes(decoded, value, length) if is_place else value
        values.setdefault(column.name, []).append(found)
    return values


def column_of(decoded: DecodedFrames, name: str) -> list[list[Any] | None]:
    """The values of a column for each frame; None if it is of another message or was not read whole."""
    column = next(column for column in decoded.columns if column.name == name)
    columns: list[list[Any] | None] = []
    for number in range(len(decoded.frames)):
        values = values_of(decoded, number).get(name, [])
        assert not values or _may_have(decoded, column, number)
        typed = [_typed(column, value) for value in values]
        columns.append(typed if _may_have(decoded, column, number) else None)
    return columns


def _may_have(decoded: DecodedFrames, column: Column, number: int) -> bool:
    head = decoded.heads[number]
    fields = column.requests if decoded.frames.is_request[number] else column.responses
    return bool(head["has_body"]) and int(head["api_key"]) in fields


def _rows_of(rows: Any, number: int) -> Any:
    begin, end = np.searchsorted(rows[:, 0], [number, number + 1])
    return rows[begin:end].tolist()


def _typed(column: Column, value: Any) -> Any:
    match column.type:
        case ValueType.FLOAT:
            return struct.unpack("d", struct.pack("q", value))[0]
        case ValueType.BOOLEAN:
            return value != 0
    return value


def _bytes(decoded: DecodedFrames, begin: int, length: int) -> bytes | None:
    return None if begin < 0 else decoded.frames.data[begin : begin + length].tobytes()


def _unless_negative(number: int) -> int | None:
    return None if number < 0 else number
