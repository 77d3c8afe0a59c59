"""The envelope of a topic record as a numpy type, made from the table in `frame/record.py`."""

from __future__ import annotations

from typing import Final

import numpy as np

from decoders.frame.record import ENVELOPE


def _format(code: str) -> str:
    # Addresses and names are plain bytes here: numpy would strip NUL bytes from a string.
    return f"V{code[:-1]}" if code.endswith("s") else f">{code}"


ENVELOPE_TYPE: Final = np.dtype([(name, _format(code)) for name, code in ENVELOPE])
"""A structured type with the size of the envelope and its fields by name."""


def offset_of(name: str) -> int:
    """Return the byte offset of a field in the envelope."""
    assert ENVELOPE_TYPE.fields is not None
    return int(ENVELOPE_TYPE.fields[name][1])
