"""The site in a browser, opened as files: no page is wider than a phone, and the search finds something."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import Final

import pytest

CHROMIUM: Final = shutil.which("chromium")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--allow-file-access-from-files"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-quic",
)
"""Without the last two lines Chromium asks for updates, and waits for them if there is no network."""
PHONE: Final = 390
"""CSS pixels of a common phone's width."""
TOLD: Final = """<script>
addEventListener("load", () => {
  const root = document.documentElement, wide = [];
  const scrolls = ".md-typeset__scrollwrap, pre";
  for (const each of document.querySelectorAll("article *"))
    if (each.getBoundingClientRect().right > root.clientWidth + 1 && !each.closest(scrolls))
      wide.push(each.outerHTML.slice(0, 80));
  parent.postMessage({width: root.scrollWidth, wide: wide}, "*");
});
</script>"""
"""Reports the width of a page, and elements that are cut off and do not scroll themselves."""
FRAMES: Final = """<!doctype html><body><script>
const pages = %s, found = {};
const frame = document.createElement("iframe");
frame.width = %d; frame.height = 844;
addEventListener("message", event => {
  if (typeof event.data.width !== "number") return;
  found[pages.shift()] = event.data;
  next();
});
function next() {
  if (pages.length) frame.src = pages[0];
  else document.body.innerHTML = `<pre id="found">${JSON.stringify(found).replaceAll("<", "&lt;")}</pre>`;
}
document.body.append(frame);
next();
</script></body>"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="apt-get install --no-install-recommends chromium"),
]


def document(address: str, milliseconds: int) -> str:
    """The document of an address after its scripts have run for a time."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        command = [
            *(CHROMIUM, *FLAGS, f"--user-data-dir={profile}"),
            *(f"--virtual-time-budget={milliseconds}", address),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=400).stdout


def test_no_page_is_wider_than_a_phone(site: Path, tmp_path: Path) -> None:
    site = Path(shutil.copytree(site, tmp_path / "site"))
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    for page in pages:
        page.write_text(page.read_text().replace("</head>", f"{TOLD}</head>", 1))
    names = [str(page.relative_to(site)) for page in pages]
    (site / "frames.html").write_text(FRAMES % (json.dumps(names), PHONE))
    shown = document(f"file://{site}/frames.html", 300_000)
    (text,) = re.findall(r'<pre id="found">(.*?)</pre>', shown, re.DOTALL)
    found = json.loads(unescape(text))
    assert len(found) == len(pages) > 100
    assert {name: each for name, each in found.items() if each["width"] > PHONE or each["wide"]} == {}


def test_the_search_finds_in_files(site: Path) -> None:
    """Finds a rule by a word of its page."""
    text = document(f"file://{site}/index.html?q=member-id-empty", 20_000)
    results = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', text)
    assert [result for result in results if "rules/kip1082/member-id-empty.html" in result]
