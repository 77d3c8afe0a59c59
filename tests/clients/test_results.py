"""The last survey: nothing in it is unexplained, and the page says what it found."""

from __future__ import annotations

from tests.clients.page import PAGE, UNDECIDED, deviations, page, undecided
from tests.clients.securing import PLAIN, SASL, TLS
from tests.clients.survey import RESULTS
from tests.clients.table import table

DONE = RESULTS.read()


def test_the_page_has_not_drifted() -> None:
    has_drifted = PAGE.read_text() != page(DONE)
    assert not has_drifted, f"write {PAGE.name} anew: `make docs`"


def test_every_finding_is_explained() -> None:
    known = {(each.rule, client) for each in deviations() for client in each.clients}
    found = {(each.rule, result.client) for result in DONE for each in result.findings}
    assert found - known == set(), "explain each in tests/clients/deviations.toml"


def test_every_request_is_the_one_that_the_broker_logged() -> None:
    assert [result for result in DONE if result.differing or result.undecodable] == []
    assert sum(result.equal for result in DONE) > 10_000


def test_every_body_is_the_one_that_the_broker_logged() -> None:
    assert [result.other_bodies for result in DONE if result.other_bodies] == []
    assert sum(result.bodies for result in DONE) > 30_000


def test_every_client_ran_at_every_broker() -> None:
    wanted = {
        (client.name, version, broker, PLAIN)
        for client, version in table().runs()
        for broker in table().brokers
    }
    wanted |= {
        (client.name, client.versions[-1], table().brokers[0], security)
        for client in table().client
        for security in (SASL, TLS)
        if client.secured
    }
    assert {(each.client, each.version, each.broker, each.security) for each in DONE} == wanted


def test_a_client_fails_only_where_it_breaks_a_rule() -> None:
    failed = [result for result in DONE if result.failed]
    assert failed
    assert [result for result in failed if not result.violations] == []


def test_what_is_undecided_is_explained() -> None:
    assert {rule for rule, _, _ in undecided(DONE)} <= UNDECIDED.keys()
