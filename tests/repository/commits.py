"""Commit messages: a subject of at most 72 characters, an empty line, and a body that says why.

`make lint` runs this module, which looks at all commits after FIRST_AFTER. Without git, or in a history that
is not this one, there is nothing to check. A shallow clone whose history does not reach back to FIRST_AFTER
holds later commits only, so all of them are checked.

With a path it checks the message in that file, as the hook `commit-msg` does.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.repository.tree import ROOT

FIRST_AFTER = "0ed03053ad4ebb7ccb12144e9d9564f0b9c86099"
LONGEST_SUBJECT = 72


def faults(message: str) -> list[str]:
    """Return what is wrong with a message, whose lines that begin with `#` are git's own."""
    lines = [line for line in message.strip().splitlines() if not line.startswith("#")]
    subject, *rest = lines or [""]
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"its subject has {len(subject)} characters, {LONGEST_SUBJECT} are allowed")
    if rest and rest[0].strip():
        found.append("its second line is not empty")
    if not "".join(rest[1:]).strip():
        found.append("it has no body, which says why")
    return found


def faulty(folder: Path, first_after: str) -> list[str]:
    """Return the faults of all commits of a repository after one of them."""
    return [
        f"{commit[:10]} {message.partition(chr(10))[0]!r}: {fault}"
        for commit, message in _messages(folder, first_after)
        for fault in faults(message)
    ]


def _messages(folder: Path, first_after: str) -> Iterator[tuple[str, str]]:
    log = ["log", "-z", "--no-merges", "--format=%H%n%B"]
    if _git(folder, "merge-base", "--is-ancestor", first_after, "HEAD") is not None:
        text = _git(folder, *log, f"{first_after}..HEAD")
    elif (_git(folder, "rev-parse", "--is-shallow-repository") or "").strip() == "true":
        text = _git(folder, *log, "HEAD")
    else:
        return
    for entry in filter(None, (text or "").split("\0")):
        commit, _, message = entry.partition("\n")
        yield commit, message


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output, None if the command fails or git is not there."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def main(paths: list[str]) -> int:
    """Print the faults of one message, or of the commits of this repository."""
    if paths:
        found = [f"the message: {fault}" for path in paths for fault in faults(Path(path).read_text())]
    else:
        found = faulty(ROOT, FIRST_AFTER)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
