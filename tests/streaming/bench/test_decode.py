"""The decode bench reports what it promises, of frames that every side reads whole."""

from __future__ import annotations

import math

import pytest

from decoders.codec.columnar.reader import ColumnarReader
from decoders.schema.registry import default_schemas
from streaming.bench.decode import measure, mixed_frames


@pytest.mark.slow
def test_a_small_run_has_the_shape_of_a_large_one() -> None:
    measured = measure(frames=1_000, rounds=1)
    assert measured["name"] == "decode"
    assert {"columnar_vs_kio", "columnar_vs_scalar", "columnar_vs_limit"} <= measured["ratios"].keys()
    assert {"columnar_frames_per_second", "kio_frames_per_second"} <= measured["figures"].keys()
    assert {"processor", "cores", "python"} <= measured["machine"].keys()
    for value in (*measured["figures"].values(), *measured["ratios"].values()):
        assert math.isfinite(value)
        assert value > 0


def test_the_mix_is_read_without_failures_or_remarks() -> None:
    schemas = default_schemas()
    for batch in mixed_frames(schemas, 500).batches(200):
        decoded = ColumnarReader(schemas).read(batch)
        assert decoded.heads["has_body"].all()
        assert len(decoded.remarks) == 0
