"""A checkpoint moves into an object store and back, by the commands of docs/growing.md.

Connections are open all the while. Each begins to offend after one of the moves, which only a query that
remembers them can see. Findings equal those of `check`, so no offence is found twice under two IDs either.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import pytest

from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.ports import HOST, free_ports
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from tests.compatibility.road import Road
from tests.compatibility.week import PORT, SOME_DAY, WEEK, week
from tests.e2e.found import found_so_far, likenesses
from tests.e2e.object_store import BUCKET, CREDENTIALS, build_program, serve_bucket
from tests.e2e.test_month import JUDGED, errors
from tests.repository.tree import ROOT
from tests.streaming.captures import write_packets
from tests.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed"),
]

STAYS: Final = (range(SOME_DAY + 1), range(SOME_DAY + 1, SOME_DAY + 3), range(SOME_DAY + 3, WEEK))
"""The days in the folder, in the store, and in another folder. The first offences are on `SOME_DAY` + 1."""
BARE: Final = 62
"""Bytes of the largest packet without a frame: headers, and the options of a SYN."""
MOST: Final = 0.8
STORED: Final = f"{BUCKET}/moved/checkpoint"
_PAGE: Final = (ROOT / "docs/growing.md").read_text()
_COPY: Final = re.search(r"^ *python (-c '.*') \\\n +(\S+) '(s3://\S+)'$", _PAGE, re.MULTILINE)


def copy(source: str, target: str) -> None:
    """Copy a folder with the page's command."""
    assert _COPY is not None
    command = [sys.executable, *shlex.split(_COPY[1]), source, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def delete_checksums(folder: Path) -> None:
    """Run the page's other command in a folder, which needs it."""
    assert [*folder.rglob(".*.crc")]
    (line,) = re.findall(r"^find .*$", _PAGE, re.MULTILINE)
    program, _, *flags = shlex.split(line)
    subprocess.run([program, str(folder), *flags], check=True, timeout=60)
    assert not [*folder.rglob(".*.crc")]


def judge(road: Road, days: list[list[Packet]], stay: range) -> None:
    """Feed some days, and wait until most of their requests and responses are judged."""
    packets = [packet for day in stay for packet in days[day]]
    road.feed(packets)
    frames = sum(len(packet.data) > BARE for packet in packets)
    until(lambda: road.page().total("kipwatch_frames_total") > MOST * frames, JUDGED, road.query)


def test_a_checkpoint_moves_into_a_store_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build_program(tmp_path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    days = week()
    capture = write_packets(tmp_path / "week.pcap", (packet for day in days for packet in day))
    checked = examine(capture, default_schemas(), [PORT])
    expected = likenesses(checked.findings)
    assert len(expected) > 3
    back = tmp_path / "back"
    with EmbeddedBroker() as broker, ExitStack() as stack:
        (port,) = free_ports(1)
        settings = serve_bucket(stack, program, HOST, tmp_path, port)
        configuration = tmp_path / "kipwatch.toml"
        lines = "".join(f'"{name}" = "{value}"\n' for name, value in settings.items())
        configuration.write_text(f"[spark]\n{lines}")
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        road = Road(stack, tmp_path, broker, buckets=4)
        stored = f"s3://{STORED}?scheme=http&endpoint_override={HOST}:{port}&region=us-east-1"

        judge(road, days, STAYS[0])
        road.query.stop()
        copy(str(road.checkpoint), stored)
        shutil.rmtree(road.checkpoint)

        road.start_query("--config", str(configuration), "--checkpoint", f"s3a://{STORED}")
        judge(road, days, STAYS[1])
        road.query.stop()
        back.mkdir()
        copy(stored, str(back))
        delete_checksums(back)

        road.start_query("--checkpoint", str(back))
        judge(road, days, STAYS[2])
        road.end_feeder()
        with closing(FindingsTopic(broker.internal, "kipwatch.findings")) as topic:
            until(lambda: found_so_far(topic) == expected, JUDGED, road.query)
            topic.poll(5.0)
            assert found_so_far(topic) == expected
        road.query.stop()
    assert errors(road) == []
