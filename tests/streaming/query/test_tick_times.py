"""Buckets tick at their own moments, whatever batch their timers run in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.query.worker import LONGEST_INTERVAL, TICK_INTERVAL, first_tick, next_tick
from tests.examples import examples

NOW = 1_790_000_000_000
BUCKETS = st.integers(0, 1_000)
LATENESS = st.lists(st.integers(0, 3 * TICK_INTERVAL), min_size=1, max_size=8)


@examples(200)
@given(BUCKETS, LATENESS)
def test_a_bucket_keeps_its_moment_however_late_its_timers_run(bucket: int, lateness: list[int]) -> None:
    due = first_tick(bucket, NOW)
    assert NOW < due <= NOW + TICK_INTERVAL
    for late in lateness:
        following = next_tick(bucket, due + late)
        assert (following - due) % TICK_INTERVAL == 0
        assert TICK_INTERVAL * 5 / 6 < following - (due + late) <= LONGEST_INTERVAL
        due = following


@given(BUCKETS)
def test_a_tick_in_time_is_followed_by_one_an_interval_later(bucket: int) -> None:
    due = first_tick(bucket, NOW)
    assert next_tick(bucket, due + TICK_INTERVAL // 10) == due + TICK_INTERVAL


@pytest.mark.parametrize("buckets", [16, 60, 256])
def test_buckets_that_tick_in_one_long_batch_tick_apart_afterwards(buckets: int) -> None:
    """All over the minute: none is one and a half times as far from the next as if all were even."""
    following = sorted(next_tick(bucket, NOW) for bucket in range(buckets))
    assert max(later - earlier for earlier, later in pairwise(following)) < TICK_INTERVAL / buckets * 1.5
    assert following[-1] - following[0] > TICK_INTERVAL * 0.9
