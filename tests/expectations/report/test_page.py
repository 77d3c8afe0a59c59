"""The page of the fleet needs nothing beside itself, and what the wire says does not become part of it."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from msgspec import UNSET

from decoders.schema.registry import default_schemas
from expectations.judging.finding import Suppressed
from expectations.report.client import software_text
from expectations.report.page import fleet_page
from expectations.report.versions import versions_view
from expectations.rules.base.rule import Level, Role
from expectations.rules.catalogue import RULES
from streaming.check.examination import Examination, examine
from tests.captures import planted, real_clients

VOID = {"meta", "br", "link", "img"}
FEATURES = {"share-groups": {76: 1, 78: 1}, "time-travel": {9_999: 0}}


class Outline(HTMLParser):
    """Reads a page strictly: what opens must close, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module", params=[planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def examination(request: pytest.FixtureRequest) -> Examination:
    return examine(request.param, default_schemas())


def page_of(examination: Examination, read: str = "a.pcap") -> str:
    view = versions_view(examination.brokers, examination.clients, FEATURES, default_schemas().api_names)
    return fleet_page(examination.clients, examination.findings, view, [read])


def outline_of(page: str) -> Outline:
    outline = Outline()
    outline.feed(page)
    outline.close()
    assert outline.open == []
    return outline


def test_the_page_is_whole_and_asks_for_nothing(examination: Examination) -> None:
    page = page_of(examination)
    names = {name for name, _ in outline_of(page).attributes}
    assert names.isdisjoint({"src", "onclick"})
    assert all((value or "").startswith("#") for name, value in outline_of(page).attributes if name == "href")
    assert not re.search(r"url\(|@import|<script|https?:", page)


def test_every_link_leads_to_one_place_of_the_page(examination: Examination) -> None:
    attributes = outline_of(page_of(examination)).attributes
    places = [value for name, value in attributes if name == "id"]
    links = {value for name, value in attributes if name == "href"}
    assert len(places) == len(set(places))
    assert {f"#{place}" for place in places} >= links


def test_rule_client_and_finding_lead_to_each_other(examination: Examination) -> None:
    """Each finding that is listed can be reached from its cell of the matrix, and leads back to its row."""
    page = page_of(examination)
    groups = {
        (finding.client_software_name, finding.client_software_version, finding.rule): finding
        for finding in examination.findings
    }
    _, _, after = page.partition('<table class="matrix">')
    matrix, _, _ = after.partition("</table>")
    assert matrix.count('href="#finding-') == len(groups)
    for finding in groups.values():
        assert f'<a href="#{finding.rule.replace("/", "-")}">{finding.rule}</a>' in page
    for number in range(len(examination.clients)):
        assert matrix.count(f'href="#client-{number}"') == 1
        assert f'<h3 id="client-{number}">' in page


def test_the_findings_come_before_the_matrix_and_the_fixed_column_leaves_room_on_a_phone(
    examination: Examination,
) -> None:
    page = page_of(examination)
    assert page.index('<section id="findings">') < page.index('<section id="matrix">')
    narrow = page[page.index("@media (max-width: 40rem)") :]
    assert re.search(r"th:first-child \{\s*min-width: 7rem; max-width: 38vw; white-space: normal;", narrow)


def test_the_top_says_how_many_findings_of_each_level_there_are(examination: Examination) -> None:
    header = page_of(examination).partition("</header>")[0]
    levels = Counter(finding.level for finding in examination.findings)
    shown = re.findall(r'<span class="level (\w+)">(\d+) ', header)
    assert shown == [(level, str(levels[level])) for level in Level if levels[level]]


def test_the_line_of_a_finding_names_the_client_and_the_broker_at_fault(examination: Examination) -> None:
    page = page_of(examination)
    lines = re.findall(r"<summary>.*<code>([^<]+)</code> <b>([^<]+)</b> ", page)
    found = {finding.rule: finding for finding in examination.findings}
    assert {rule for rule, _ in lines} == set(found)
    for rule, name in lines:
        at_broker = found[rule].role == Role.BROKER
        assert name.startswith(f"{found[rule].listener} to ") == at_broker, rule
        assert any(name.endswith(software_text(client.software)) for client in examination.clients), rule


def test_every_rule_and_every_client_is_on_the_page(examination: Examination) -> None:
    text = outline_of(page_of(examination)).text
    assert {rule.id.partition("/")[2] for rule in RULES} <= set(text)
    assert {client.client_software_name or "unknown" for client in examination.clients} <= set(text)


def test_names_from_the_wire_are_text(examination: Examination) -> None:
    assert "<b>x</b>&" in "".join(outline_of(page_of(examination, "<b>x</b>&")).text)
    assert "<b>x" not in page_of(examination, "<b>x</b>")


def test_why_a_finding_is_suppressed_stands_with_it() -> None:
    examination = examine(planted.CAPTURE, default_schemas())
    borne = examination.findings[0].rule
    reason = Suppressed("renamed in <June>", "2999-01-01")
    for finding in examination.findings:
        finding.suppressed = reason if finding.rule == borne else UNSET
    text = "".join(outline_of(page_of(examination)).text)
    assert text.count("until 2999-01-01: renamed in <June>") == 1
