"""`bench owners` runs with a small load; the figures have no meaning."""

from __future__ import annotations

import pytest

from streaming.bench.owners import measure


@pytest.mark.slow
def test_a_short_file_of_owners_is_measured() -> None:
    measured = measure(entries=90, clients=300, stepped=60)
    assert measured["ratios"].keys() == {"owner_vs_finding", "owners_vs_batch"}
    figures = measured["figures"]
    assert 0 < figures["opening_microseconds"] < figures["finding_microseconds"]
