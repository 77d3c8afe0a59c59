"""The requests in flight: bounded, however many API versions a client names, and never a wrong one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.protocol import API_VERSIONS
from expectations.conversation import progress
from expectations.conversation.progress import VERSIONS_LIMIT, ApiVersion, InFlight
from tests.examples import examples

VERSIONS = st.tuples(st.sampled_from([3, API_VERSIONS]), st.integers(0, 5))


def test_a_client_that_names_ever_new_versions_is_followed_by_few() -> None:
    waiting = InFlight()
    for version in range(10_000):
        waiting.add((version % 90, version), 1)
    assert len(waiting.counts) == VERSIONS_LIMIT + 1
    assert sum(waiting.forget().values()) == 10_000


@examples(300)
@given(st.lists(st.tuples(VERSIONS, st.sampled_from([1, -1])), max_size=24), st.integers(1, 4))
def test_the_requests_in_flight_are_never_wrong(steps: list[tuple[ApiVersion, int]], limit: int) -> None:
    """Requests and responses to some of them: which one is alone, which may wait, and how many wait."""
    waiting, true = InFlight(), Counter[ApiVersion]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "VERSIONS_LIMIT", limit)
        for version, count in steps:
            if count < 0 and not true[version]:
                continue
            waiting.add(version, count)
            true[version] += count
            alone = [each for each, waits in true.items() if waits]
            is_alone = sum(true.values()) == 1
            assert waiting.only_one in ([alone[0], None] if is_alone else [None])
            assert all(waiting.may_include(each) for each in alone)
            assert sum(waiting.counts.values()) == sum(true.values())
            assert len(waiting.counts) <= limit + 1
    in_doubt = waiting.forget().get(API_VERSIONS, 0)
    assert in_doubt >= sum(count for (api_key, _), count in true.items() if api_key == API_VERSIONS)
