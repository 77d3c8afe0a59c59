"""The last survey of provoked clients: nothing in it is unexplained, and the page says what it found."""

from __future__ import annotations

from streaming.record.provocations import PROVOCATIONS
from tests.clients.provoked.page import PAGE, known, page
from tests.clients.provoked.survey import RESULTS

DONE = RESULTS.read()


def test_the_page_has_not_drifted() -> None:
    has_drifted = PAGE.read_text() != page(DONE)
    assert not has_drifted, f"write {PAGE.name} anew: `make docs`"


def test_whatever_was_found_is_explained() -> None:
    found = {
        (result.client, each.rule) for result in DONE for met in result.duties.values() for each in met.found
    }
    assert found == {(client, each.rule) for each in known() for client in each.clients}


def test_each_client_was_provoked_in_each_way() -> None:
    assert {tuple(result.duties) for result in DONE} == {tuple(each.name for each in PROVOCATIONS)}


def test_what_each_client_conforms_to_was_exercised_by_some() -> None:
    conforming = {name for result in DONE for name, met in result.duties.items() if met.state == "conforms"}
    assert len(conforming) > 6
