"""Add pinned jars to a CycloneDX list of parts: `python add_jars.py PARTS.json PINS.sha256...`.

Pins name files and not groups, so the entries have no package URL; scanners match their digests.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

NAME = re.compile(r"(.+?)-(\d+\..+)\.jar")
"""A name may contain numbers: `spark-sql-kafka-0-10_2.13-4.2.0.jar`."""
ALWAYS = "connector"
"""The folder of jars that every query needs. The others are for the demo and for object stores."""


def jar(line: str) -> dict[str, Any]:
    """Return the entry for a line of `sha256sum`."""
    digest, path = line.split()
    named = NAME.fullmatch(Path(path).name)
    assert named is not None, path
    name, version = named.groups()
    return {
        "type": "library",
        "bom-ref": path,
        "name": name,
        "version": version,
        "scope": "required" if Path(path).parts[0] == ALWAYS else "optional",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def add_jars(parts: Path, pins: list[Path]) -> None:
    """Add every jar of the pins to the list."""
    listed = json.loads(parts.read_text())
    jars = [jar(line) for each in pins for line in each.read_text().splitlines()]
    listed["components"] += jars
    listed["dependencies"] += [{"ref": each["bom-ref"]} for each in jars]
    parts.write_text(json.dumps(listed, indent=2) + "\n")


if __name__ == "__main__":
    add_jars(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
