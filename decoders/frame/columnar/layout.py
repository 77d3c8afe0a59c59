"""The envelope of a topic record as numpy has it, made from the one table in `frame/record.py`."""

from __future__ import annotations

from typing import Final

import numpy as np

from decoders.frame.record import ENVELOPE


def _format(code: str) -> str:
    # Addresses and names are bytes without a meaning here; numpy would take NUL bytes off a string.
    return f"V{code[:-1]}" if code.endswith("s") else f">{code}"


ENVELOPE_TYPE: Final = np.dtype([(name, _format(code)) for name, code in ENVELOPE])
"""A structured type of the envelope's size, with its fields by name."""


def offset_of(name: str) -> int:
    """Tell at which byte of the envelope a field begins."""
    assert ENVELOPE_TYPE.fields is not None
    return int(ENVELOPE_TYPE.fields[name][1])
