"""A month in miniature: daily restarts, an upgrade, a lost volume; the findings are those of `check`.

24 hours of the capture's clock are replayed as fast as they are judged. The query is stopped each day, amid
whatever waits. One day its checkpoint is copied; days later it is killed, its volume lost, and the copy
restored. Then query and feeder are upgraded, in the order of docs/operations.md, to an installed wheel of a
higher version.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from decoders.wire.segment import Packet
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.topics import FindingsTopic, create_topics
from streaming.check.examination import examine
from tests.compatibility.road import Road
from tests.compatibility.week import PORT
from tests.e2e.found import Likenesses, found_so_far, likenesses
from tests.e2e.month import DAYS, PERMANENT, VISITORS, month
from tests.e2e.next_version import unpack_next_version
from tests.streaming.captures import write_packets
from tests.waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(3600)]

BACKED_UP, LOST, UPGRADED = DAYS // 3, DAYS // 3 + 2, 2 * DAYS // 3
"""The days at whose end that happens; the upgrade happens at the begin of its day."""
JUDGED, SETTLED = 400.0, 5.0
LARGEST_MEBIBYTES = 64
_MEBIBYTE = 1 << 20


def test_a_month_of_restarts_an_upgrade_and_a_lost_volume_changes_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = month(UPGRADED)
    number, environment = unpack_next_version(tmp_path)
    expected = checked(tmp_path, days)
    with EmbeddedBroker() as broker, ExitStack() as stack:
        create_topics(broker.internal, "kipwatch.frames", "kipwatch.findings")
        road, backup, sizes = Road(stack, tmp_path, broker, buckets=16), tmp_path / "backup", list[float]()
        for day, packets in enumerate(days):
            if day == UPGRADED:
                for name, value in environment.items():
                    monkeypatch.setenv(name, value)
                upgrade(road)
            begun = time.monotonic()
            road.feed(packets)
            road.query.wait_for('"query": "batch"', JUDGED)
            end_of_day(road, day, backup)
            sizes.append(size(road.checkpoint))
            print(f"day {day}: {time.monotonic() - begun:.0f} s", flush=True)
        road.end_feeder()
        with closing(FindingsTopic(broker.internal, "kipwatch.findings")) as topic:
            until(lambda: found_so_far(topic) == expected, JUDGED, road.query)
            topic.poll(SETTLED)
            assert found_so_far(topic) == expected
        # Of those that were open when the feeder was upgraded, no later record tells. The gauge is complete
        # when every bucket has reported.
        until(lambda: road.page().total("kipwatch_open_connections") == PERMANENT, JUDGED, road.query)
        assert road.page().total("kipwatch_build_info", version=number) == 1
        road.query.stop()
    print(f"checkpoint, MiB by day: {[round(each, 2) for each in sizes]}")
    assert max(sizes) < LARGEST_MEBIBYTES
    assert errors(road) == []


def upgrade(road: Road) -> None:
    """The query first, then the feeder."""
    road.restart_query()
    road.end_feeder()
    road.start_feeder()


def end_of_day(road: Road, day: int, backup: Path) -> None:
    """What happens to the query; the last day has no end."""
    if day == LOST:
        road.kill_query()
        road.restore(backup)
        road.start_query()
    elif day < DAYS - 1:
        road.restart_query(backup if day == BACKED_UP else None)


def errors(road: Road) -> list[str]:
    """The errors in the logs of all that ran."""
    lines = (line for log in road.logs for line in log.read_text().splitlines())
    return [line for line in lines if '"level": "error"' in line]


def checked(folder: Path, days: list[list[Packet]]) -> Likenesses:
    """The findings of `check` on the packets that each of the two feeders sees."""
    total = Likenesses()
    for name, part in (("before", days[:UPGRADED]), ("after", days[UPGRADED:])):
        capture = write_packets(folder / f"{name}.pcap", (packet for day in part for packet in day))
        total.update(likenesses(examine(capture, default_schemas(), [PORT]).findings))
    rules = Counter(likeness[0] for likeness in total.elements())
    assert rules["kip511/software-name-malformed"] == DAYS * VISITORS // 3
    assert rules["kip1313/instance-id-changed"] > 1
    assert rules["kip1313/instance-id-shared"] == 1
    return total


def size(folder: Path) -> float:
    """In MiB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / _MEBIBYTE
