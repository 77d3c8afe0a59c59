"""The real broker, asked everything that the KIPs say it must answer.

It is accused of nothing, and the client of just what it did. The same exchange with the answer altered
is held against the broker.
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
def test_the_broker_answers_as_it_must(stage: Stage, question: Question) -> None:
    with stage.watch(stage.old) as watch, watch.client() as client:
        question.play(client)
    examination = stage.examine(watch)
    assert found(examination) == question.offences
    assert {finding.role for finding in examination.findings} <= {"client"}


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if q.altered is not None], ids=lambda question: question.name
)
def test_an_altered_answer_is_held_against_the_broker(stage: Stage, question: Question) -> None:
    alter = question.altered
    assert alter is not None
    with stage.watch(stage.old, lambda: Altered(alter)) as watch, watch.client() as client:
        question.play(client)
    told = {finding.rule for finding in stage.examine(watch).findings if finding.role == "broker"}
    assert question.fault in told
