"""Runs the long tests part by part, and goes on where it was stopped: `make long`.

A part is a file of tests, and takes an hour at most. A part that has passed is remembered in build/long for
the commit that it passed at, so a second run begins with the first part that has not. Where files differ from
the commit, nothing is remembered. Words on the command line choose the parts whose names contain one of them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.repository.tree import ROOT

PASSED = ROOT / "build" / "long"


class Part(NamedTuple):
    """Tests that run together: a file or a folder, and the marks of its tests."""

    file: str
    marks: str = "long"

    @property
    def name(self) -> str:
        """What the part is remembered by."""
        return f"{self.file} ({self.marks})"


PROPERTIES = Part("tests", "not (jvm or e2e or long)")
ORACLE = Part("tests/oracle", "jvm and not long")
"""Property tests with all their examples, of which `make test` runs a quarter."""


def parts() -> Iterator[Part]:
    """Yield all parts: files with long tests, then the properties."""
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "long"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = [line.partition("::")[0] for line in collected.splitlines() if "::" in line]
    yield from map(Part, dict.fromkeys(files))
    yield from (PROPERTIES, ORACLE)


def commit() -> str | None:
    """Return the commit that the files are those of, None if they differ from it."""
    changed, head = _git("status", "--porcelain"), _git("rev-parse", "HEAD")
    return None if changed else head


def _git(*arguments: str) -> str | None:
    """Return what git prints, None if there is no repository."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def run(part: Part) -> bool:
    """Run a part; returns whether all its tests passed."""
    print(part.name, flush=True)
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", part.marks, part.file]
    status = subprocess.run(command, cwd=ROOT, check=False)
    print(f"{part.name}: {time.monotonic() - begun:.0f} s", flush=True)
    return status.returncode == 0


def run_all(chosen: Sequence[Part], remembered: Path | None) -> list[Part]:
    """Run parts that are not remembered as passed, remember those that pass, and return the others."""
    passed = set(remembered.read_text().splitlines()) if remembered and remembered.exists() else set()
    failed = []
    for part in chosen:
        if part.name in passed:
            print(f"{part.name} has passed at this commit")
        elif not run(part):
            failed.append(part)
        elif remembered:
            remembered.parent.mkdir(parents=True, exist_ok=True)
            with remembered.open("a") as file:
                file.write(f"{part.name}\n")
    return failed


def main(words: Sequence[str]) -> int:
    """Run the parts that the words choose. Returns 1 if one of them failed."""
    chosen = [part for part in parts() if not words or any(word in part.file for word in words)]
    head = commit()
    failed = run_all(chosen, PASSED / head if head else None)
    for part in failed:
        print(f"failed: {part.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
