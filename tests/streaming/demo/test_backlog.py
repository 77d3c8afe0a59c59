"""How many blocks wait, by the checkpoint's files. The e2e tests compare them with those of a real query."""

from __future__ import annotations

import json
from pathlib import Path

from streaming.demo.backlog import judged_offsets, waiting

TOPIC = "kipwatch.frames"


def batch(checkpoint: Path, number: int, offsets: dict[str, int], finished: bool) -> None:
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(exist_ok=True)
    lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({TOPIC: offsets})]
    (checkpoint / "offsets" / str(number)).write_text("\n".join(lines))
    if finished:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")
        (checkpoint / "commits" / f".{number}.crc").write_bytes(b"crc")


def test_nothing_is_judged_before_the_first_batch_has_finished(tmp_path: Path) -> None:
    assert judged_offsets(tmp_path, TOPIC) == {}
    batch(tmp_path, 0, {"0": 7}, finished=False)
    assert judged_offsets(tmp_path, TOPIC) == {}


def test_the_latest_finished_batch_counts(tmp_path: Path) -> None:
    for number in range(11):
        batch(tmp_path, number, {"0": number, "1": 2 * number}, finished=number < 10)
    assert judged_offsets(tmp_path, TOPIC) == {0: 9, 1: 18}


def test_records_of_a_partition_that_no_batch_has_read_wait() -> None:
    assert waiting({0: 10, 1: 5}, {0: 8}) == 7
    assert waiting({0: 10}, {0: 12}) == 0
