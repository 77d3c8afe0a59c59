"""The hook of MkDocs: adds pages from outside of `docs` to the site, and adapts links."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = "docs"
OUTSIDE: Final = {
    "CHANGELOG.md": "site/changes.md",
    "DESIGN.md": "site/design.md",
    "SECURITY.md": "site/security.md",
    "deploy/README.md": "site/deploy.md",
    "deploy/ci/README.md": "site/ci.md",
    "deploy/helm/README.md": "site/kubernetes.md",
    "tests/cases/README.md": "site/cases.md",
}
"""Documents elsewhere in the repository, and their places in the site."""
_SOURCES: Final = {place: source for source, place in OUTSIDE.items()}
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    from mkdocs.structure.files import File  # noqa: PLC0415  # only MkDocs itself calls this

    for source, place in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to the site's own pages."""
    return relinked(markdown, page.file.src_uri)


def relinked(markdown: str, place: str) -> str:
    """Return a page whose links lead to pages of the site; links to other files become plain text.

    `place` is the page's path in the site. Links of a page from outside are relative to its source.
    """
    source = _SOURCES.get(place, f"{DOCS}/{place}")

    def replace(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        inside = OUTSIDE.get(target) or _in_docs(target)
        if inside is None:
            return str(text)
        return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(replace, markdown)


def _in_docs(target: str) -> str | None:
    """Return the place of a file of `docs`, None for all else, such as folders."""
    is_page = target.startswith(f"{DOCS}/") and (ROOT / target).is_file()
    return target.removeprefix(f"{DOCS}/") if is_page else None
