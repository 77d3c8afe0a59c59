"""The topic that an earlier version wrote is judged from its beginning, here without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from expectations.judging.terms import Terms
from tests.compatibility.earlier import Earlier, versions
from tests.compatibility.test_earlier_versions import checked_week
from tests.streaming.query.stand_in import StandIn


@pytest.mark.parametrize("version", versions())
def test_its_topic_is_judged_from_the_beginning(version: str, tmp_path: Path) -> None:
    query = StandIn(Terms())
    for _, block in Earlier(version).topic():
        query.process_blocks([[block]])
    query.settle()
    expected = Counter(finding.likeness() for finding in checked_week(tmp_path))
    assert Counter(finding.likeness() for finding in query.findings.values()) == expected
