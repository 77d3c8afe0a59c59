"""`make corpus`: a capture of each case, what it shows, and what kipwatch says of it.

python -m tests.corpus.corpus [FOLDER]
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from decoders.wire.segment import Packet
from tests.cases.notation import Case, read_page
from tests.corpus.packets import NotCapturableError, packets_of
from tests.repository.tree import ROOT
from tests.streaming.captures import write_packets

FOLDER = ROOT / "corpus"
LEFT_OUT = {
    "kip35/ranges-changed/a-gap-between-them": "nothing shows that the lost bytes were whole frames",
    "wire/unknown-api/an-unknown-api": "a connection of which nothing else is seen is not known to be Kafka",
}
"""Cases of which packets show less than records do, with the reason."""
PAGES = sorted((ROOT / "tests" / "cases").glob("*/*.md"))


class Entry(NamedTuple):
    """One capture. `name` is its path in the corpus, without an ending."""

    name: str
    case: Case
    packets: list[Packet]
    ports: list[int]


def entries(page: Path) -> Iterator[Entry]:
    """Yield the cases of a page that packets can show."""
    for case in read_page(page):
        records = case.exchange()[0].records
        try:
            packets = list(packets_of(records))
        except NotCapturableError:
            continue
        name = f"{case.rule}/{_slug(case.title)}"
        if name in LEFT_OUT:
            continue
        ports = sorted({int(record.server.rpartition(":")[2]) for record in records})
        yield Entry(name, case, packets, ports)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def write(entry: Entry, folder: Path) -> Path:
    """Write a capture, and beside it what it shows. Returns the capture."""
    capture = folder / f"{entry.name}.pcap"
    capture.parent.mkdir(parents=True, exist_ok=True)
    write_packets(capture, entry.packets)
    about = {
        "rule": entry.case.rule,
        "title": entry.case.title,
        "ports": entry.ports,
        "exchange": entry.case.script,
        "spec": [line.split()[1] for line in entry.case.script if line.startswith("spec ")],
        "findings": entry.case.findings,
    }
    capture.with_suffix(".json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n")
    return capture


def main() -> None:
    """Write the corpus anew."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    written = [write(entry, folder) for page in PAGES for entry in entries(page)]
    shutil.copy(Path(__file__).with_name("README.md"), folder)
    print(f"{len(written)} captures in {folder}")


if __name__ == "__main__":
    main()
