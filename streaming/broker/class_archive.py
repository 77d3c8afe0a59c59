"""Archives the classes that the embedded broker loads, so that later ones start in half the time.

`python -m streaming.broker.class_archive`, which `make setup` runs, starts a broker whose JVM writes its
classes to a file when it ends. Java calls this class data sharing. An archive that fits is kept.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from streaming.broker.embedded import EmbeddedBroker, archived_classes, class_path
from streaming.broker.jars import java
from streaming.user_error import UserError


class _ArchivingBroker(EmbeddedBroker):
    """A broker that archives its classes in a file when it ends."""

    def __init__(self, archive: Path) -> None:
        super().__init__()
        self._archive = archive

    def _class_flags(self) -> list[str]:
        return [f"-XX:ArchiveClassesAtExit={self._archive}"]


def make_class_archive() -> bool:
    """Archive the broker's classes unless that is done. Returns whether this Java can use the archive.

    Raises `UserError` if the broker does not start.
    """
    kept = archived_classes()
    if _fits(kept):
        return True
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder) / kept.name
        with _ArchivingBroker(made):
            pass
        # A JVM that is killed meanwhile leaves a part of the file, which would crash others.
        if not _fits(made):
            return False
        made.replace(kept)
        return True


def _fits(archive: Path) -> bool:
    """Whether this Java can use an archive; HotSpot itself compares Java, jars and class path.

    An incomplete archive crashes it; that crash must leave no report in the user's folder.
    """
    quiet = ["-XX:ErrorFile=/dev/null", "-XX:-CreateCoredumpOnCrash"]
    flags = ["-Xshare:on", f"-XX:SharedArchiveFile={archive}", *quiet]
    command: list[str | Path] = [java(), *flags, *class_path(), "-version"]
    return archive.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def main() -> int:
    """Make the archive, and say what is done."""
    try:
        print("kipwatch: archiving the classes of our broker, which takes ten seconds the first time")
        if not make_class_archive():
            print(f"kipwatch: {java()} keeps no classes, or was killed meanwhile; brokers start without them")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
