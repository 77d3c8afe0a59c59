"""The last survey of brokers: nothing in it is unexplained, and the page says what it found."""

from __future__ import annotations

from streaming.probe.duties import DUTIES
from tests.brokers.page import PAGE, known, page
from tests.brokers.survey import results

DONE = results()


def test_the_page_has_not_drifted() -> None:
    has_drifted = PAGE.read_text() != page(DONE)
    assert not has_drifted, f"write {PAGE.name} anew: `make docs`"


def test_whatever_was_found_is_explained() -> None:
    found = {
        (result.broker, what)
        for result in DONE
        for name, met in result.duties.items()
        for what in [*(each.rule for each in met.found), *([name] if met.state == "undecided" else [])]
    }
    assert found == {(each.broker, each.rule) for each in known()}


def test_each_duty_was_asked() -> None:
    assert {tuple(result.duties) for result in DONE} == {tuple(duty.name for duty in DUTIES)}


def test_released_kafka_is_accused_of_nothing() -> None:
    kafka = [result for result in DONE if result.broker.startswith("Kafka")]
    assert len(kafka) > 6
    assert {met.state for result in kafka for met in result.duties.values()} == {"conforms", "not offered"}
