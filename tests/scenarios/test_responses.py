"""A real broker responds as the KIPs require, and altered responses are findings about the broker.

The broker itself is accused of nothing, and the client only of what it did.
"""

from __future__ import annotations

import pytest

from tests.scenarios.alteration import Altered
from tests.scenarios.questions import QUESTIONS, Question
from tests.scenarios.stage import Stage, found

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if q.altered is None], ids=lambda question: question.name
)
def test_the_broker_responds_as_it_must(stage: Stage, question: Question) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        question.play(client)
    examination = stage.examine(watch)
    assert found(examination) == question.offences
    assert {finding.role for finding in examination.findings} <= {"client"}


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if q.altered is not None], ids=lambda question: question.name
)
def test_an_altered_response_is_a_finding_about_the_broker(stage: Stage, question: Question) -> None:
    alter = question.altered
    assert alter is not None
    with stage.watch(stage.old, lambda: Altered(alter)) as watch, watch.client() as client:
        question.play(client)
    broken = {finding.rule for finding in stage.examine(watch).findings if finding.role == "broker"}
    assert question.fault in broken
