"""Compares our reading and writing of a message with Kafka's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from decoders.codec.failure import DecodeFailure, Oddity
from decoders.codec.program import FieldKind, Instruction, Program
from decoders.codec.reader import Reader
from decoders.codec.writer import write
from tests.oracle.judge import JudgedMessage, KafkaVerdict


def difference(program: Program, judged: JudgedMessage) -> str | None:
    """Return how our codec differs from Kafka's on the bytes of a message, None if it does not.

    Where Kafka accepts the bytes, value, number of bytes read and bytes written must be equal and its
    second decoder must agree; where it refuses them, ours must be a DecodeFailure. Messages whose tags
    repeat or do not ascend are compared by value alone: neither Kafka's writer nor its second decoder
    takes them.
    """
    reader = Reader(judged.data)
    try:
        values = reader.fill(program, {})
    except DecodeFailure as failure:
        found = None if judged.verdict.json is None else f"only we refuse it: {failure}"
    else:
        found = _of_values(program, values, reader, judged.verdict)
    return found and f"{judged.pair.message} v{judged.pair.version} {judged.data.hex()}: {found}"


def _of_values(program: Program, values: dict[str, Any], reader: Reader, verdict: KafkaVerdict) -> str | None:
    if verdict.json is None:
        return f"only Kafka refuses it: {verdict.reason}"
    if (ours := printed(program, values)) != (kafkas := json.loads(verdict.json)):
        return f"we read {ours}, Kafka {kafkas}"
    if reader.position != verdict.read:
        return f"we read {reader.position} bytes, Kafka {verdict.read}"
    if any(remark.oddity is Oddity.TAG_ORDER for remark in reader.remarks):
        return None
    if (written := write(program, values)) != verdict.written:
        return f"we write {written.hex()}, Kafka {verdict.written.hex()}"
    return None if verdict.agreed else "Kafka's second decoder reads something else"


def printed(program: Program, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a struct as Kafka's JsonConverter prints it.

    It prints only the size of records, omits unknown tagged fields, and prints numbers that JSON cannot
    represent as text.
    """
    known = {one.name: one for one in (*program.fields, *program.tagged.values())}
    shown = ((one, values[name]) for name, one in known.items() if name in values)
    return {_name(one, value): _printed(one, value) for one, value in shown}


def _name(instruction: Instruction, value: Any) -> str:
    is_sized = instruction.kind is FieldKind.RECORDS and value is not None
    return f"{instruction.name}SizeInBytes" if is_sized else instruction.name


def _printed(instruction: Instruction, value: Any) -> Any:
    if value is None:
        return None
    if instruction.element is not None:
        return [_printed(instruction.element, element) for element in value]
    if instruction.program is not None:
        return printed(instruction.program, value)
    if instruction.kind is FieldKind.RECORDS:
        return len(value) // 4 * 3 - value.count("=")
    return _finite(value) if isinstance(value, float) else value


def _finite(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{'-' * (value < 0)}Infinity"
