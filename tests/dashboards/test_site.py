"""The site: built strictly, its links and anchors lead somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from dashboards.runbook import runbook
from dashboards.site import OUTSIDE, relinked
from expectations.rules.catalogue import RULES
from tests.repository.tree import ROOT


class Page(HTMLParser):
    """The anchors, links and resources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if name := given.get("id"):
            self.anchors.add(name)
        if tag == "a" and (link := given.get("href")):
            self.links.add(link)
        if tag in ("script", "img", "iframe") and (source := given.get("src")):
            self.loaded.add(source)
        if tag == "link" and given.get("rel") != "canonical" and (source := given.get("href")):
            self.loaded.add(source)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_a_heading_of_the_site(pages: dict[Path, Page]) -> None:
    dead = {
        (path.name, link)
        for path, page in pages.items()
        for link in page.links
        if not urlsplit(link).scheme and not _leads_somewhere(pages, path, link)
    }
    assert len(pages) > 100
    assert dead == set()


def _leads_somewhere(pages: dict[Path, Page], path: Path, link: str) -> bool:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not parts.fragment or target not in pages:
        return target.exists()
    return unquote(parts.fragment) in pages[target].anchors | {"__top"}


@pytest.mark.slow
def test_a_browser_loads_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    """The search finds its index without a server."""
    foreign = {source for page in pages.values() for source in page.loaded if urlsplit(source).netloc}
    assert foreign == set()
    root = min(pages, key=lambda path: len(path.parts)).parent
    assert (root / "search/search_index.js").stat().st_size > 100_000


@pytest.mark.slow
def test_alerts_and_findings_lead_to_headings_of_the_runbook(pages: dict[Path, Page]) -> None:
    (contents,) = [page for path, page in pages.items() if path.name == "runbook.html"]
    assert {rule.id.replace("/", "") for rule in RULES} <= contents.anchors
    assert "kipwatchstalled" in contents.anchors
    assert (
        len(runbook(RULES))
        == len([path for path in pages if path.parent.parent.name == "rules"])
        + len([path for path in pages if path.parent.name == "alerts"])
        + 1
    )


@pytest.mark.parametrize(
    ("link", "place", "expected"),
    [
        ("[a](../DESIGN.md#the-road)", "index.md", "[a](site/design.md#the-road)"),
        ("[a](docs/run.md)", "site/design.md", "[a](../run.md)"),
        ("[a](../../docs/run.md#acls)", "site/kubernetes.md", "[a](../run.md#acls)"),
        ("[`a.py`](../decoders/a.py)", "index.md", "`a.py`"),
        ("[a](#here) [b](https://kafka.apache.org)", "index.md", "[a](#here) [b](https://kafka.apache.org)"),
    ],
)
def test_links_that_leave_the_docs(link: str, place: str, expected: str) -> None:
    assert relinked(link, place) == expected


def test_the_documents_from_outside_exist() -> None:
    assert [source for source in OUTSIDE if not (ROOT / source).is_file()] == []
