"""docs/own-kafka.md, word for word, beside a broker of its own. Only addresses and ports differ."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import free_ports
from streaming.demo.road import Child
from tests.captures import real_clients
from tests.repository.tree import ROOT

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.capture,
    pytest.mark.long,
    pytest.mark.timeout(400),
]

PAGE = ROOT / "docs/own-kafka.md"
BOOTSTRAP = "kafka-1:9093"
PATIENCE = 180.0


def commands() -> list[str]:
    """The commands of the page, in its order."""
    blocks = PAGE.read_text().split("```")[1::2]
    return [line for block in blocks for line in block.strip().splitlines()]


def test_the_page_works_word_for_word(tmp_path: Path) -> None:
    init, examine_feeder, examine_query, run, feed, look = commands()
    with EmbeddedBroker() as broker:
        made = kipwatch(init.replace(BOOTSTRAP, broker.internal), tmp_path)
        assert f"watched ports: {broker.ports.watched}\n" in made.stdout
        ports = dict(zip(("9107", "9108"), map(str, free_ports(2)), strict=True))
        for file in (tmp_path / "kipwatch").iterdir():
            file.write_text(replaced(file.read_text(), ports))
        for examine in (examine_feeder, examine_query):
            kipwatch(examine, tmp_path)
        with Child(words(run, tmp_path), tmp_path / "run.log") as query:
            query.wait_for('"query": "started"', PATIENCE)
            with Child(words(feed, tmp_path), tmp_path / "feed.log") as feeder:
                feeder.wait_for('"feeder": "ready"', PATIENCE)
                real_clients.administer(broker.watched)
                real_clients.produce(broker.watched)
                assert frames(replaced(look, ports)) > 10


def kipwatch(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page in a folder, to its end."""
    program, *arguments = shlex.split(command)
    assert program == "kipwatch"
    module = [sys.executable, "-m", "streaming.commands.main"]
    return subprocess.run([*module, *arguments], cwd=folder, check=True, capture_output=True, text=True)


def words(command: str, folder: Path) -> list[str]:
    """The arguments of a command that runs on, with its files in a folder."""
    program, *arguments = shlex.split(command)
    assert program == "kipwatch"
    return [str(folder / word) if word.endswith(".toml") else word for word in arguments]


def frames(command: str) -> float:
    """Ask as the page says until frames are counted."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        shown = subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout
        if shown:
            return sum(float(line.split()[-1]) for line in shown.splitlines())
        time.sleep(1)
    raise AssertionError("no frames were counted")


def replaced(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text
