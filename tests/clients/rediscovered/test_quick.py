"""A few bugs, played anew in each test run: found in the affected version, and not in the fixed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.rediscovered.attempt import outcome
from tests.clients.rediscovered.bug import bugs
from tests.clients.rediscovered.survey import survey
from tests.streaming.feeder.live import captures

QUICK = {"kafka_python_fallback", "librdkafka_push_telemetry"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@captures
def test_bugs_are_found_where_they_are(tmp_path: Path) -> None:
    attempts = list(survey((bug for bug in bugs() if bug.name in QUICK), tmp_path))
    played = [bug for bug in bugs() if len([each for each in attempts if each.bug == bug.name]) == 2]
    assert played, "nothing could be installed"
    assert {outcome(bug, attempts) for bug in played} == {"found"}, attempts
