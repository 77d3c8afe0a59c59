"""`kipwatch schemas import`: the committed table is what the command makes of the jar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from decoders.schema.registry import COMMITTED_TABLE
from tests.streaming.commands.ran import Ran

Kipwatch = Callable[..., Ran]


def test_the_table_of_the_pinned_jar_is_the_committed_one(
    kipwatch: Kipwatch, kafka_clients_jar: Path
) -> None:
    ran = kipwatch("schemas", "import", kafka_clients_jar)
    assert (ran.status, ran.errors) == (0, "")
    assert ran.output == COMMITTED_TABLE.read_text()


def test_what_is_no_jar_is_named(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = tmp_path / "text.jar"
    path.write_text("no jar")
    assert kipwatch("schemas", "import", path).complaint.startswith(f"{path}: not a readable jar")
