"""The last proof: exactly those clients broke that the report named, and the page says so."""

from __future__ import annotations

from tests.clients.upgrading.page import PAGE, page
from tests.clients.upgrading.proof import RESULTS, clients

DONE = RESULTS.read()


def test_the_page_has_not_drifted() -> None:
    assert PAGE.read_text() == page(DONE), f"write {PAGE.name} anew: `make docs`"


def test_every_part_was_played() -> None:
    wanted = {
        (client.name, version, step)
        for client in clients()
        for version in client.versions
        for step in client.steps
    }
    assert {(each.client, each.version, each.step) for each in DONE} == wanted


def test_exactly_those_broke_that_the_report_named() -> None:
    assert [each for each in DONE if not each.is_right] == []
    breaking = {(each.client, each.version) for each in DONE if each.breaks}
    assert len(breaking) >= 6
    assert {(each.client, each.version) for each in DONE} - breaking, "some must go on"
