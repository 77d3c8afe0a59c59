"""The archive of a soak has each request of real clients once, also if the query is killed ten times.

An hour by default, KIPWATCH_SOAK_SECONDS for another time. What was counted goes to KIPWATCH_SOAK_FOLDER, if
it is set.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from streaming.commands.main import main
from streaming.observe import observing
from tests.dashboards.dashboard_files import queries
from tests.dashboards.prometheus import series_of
from tests.dashboards.stored_series import panel
from tests.e2e.archive_soak import ArchiveSoak, Checks, archived
from tests.e2e.request_counts import Call, PublishedRequests
from tests.e2e.working_clients import working

SECONDS = int(os.environ.get("KIPWATCH_SOAK_SECONDS", "3600"))
FOLDER = os.environ.get("KIPWATCH_SOAK_FOLDER", "")
KILLS = 10
RESTARTED = 180
"""Seconds that a kill may cost on a busy machine."""

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(SECONDS + KILLS * RESTARTED + 1200),
]
PANELS_OF_LONG_RUNS = ("Records in quarantine", "Expectations not met", "Expectations", "Validations")
"""Panels that show nothing of a demo (`NOT_IN_DEMO`)."""


class Counted(NamedTuple):
    """The requests of the broker's log, those in the topic of frames, and those of the archive."""

    logged: Counter[Call]
    published: PublishedRequests
    archived: Counter[Call]

    @classmethod
    def of(cls, soak: ArchiveSoak) -> Counted:
        return cls(soak.logged.calls(), soak.published(), archived(soak.archive))


class Soaked(NamedTuple):
    """What was counted before the kills, on the metrics page, too, and after them.

    `checks` are those of rules, in the archive and on the page. `series` are the numbers of series that a
    Prometheus answered with before the kills, by panel and query.
    """

    undisturbed: Counted
    on_page: Counter[tuple[str, int]]
    checks: tuple[Checks, Checks]
    series: dict[str, list[int]]
    killed: Counted
    archive: Path


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Soaked:
    random = Random(KILLS)
    with ArchiveSoak(tmp_path_factory.mktemp("soak")) as soak:
        with observing(soak.pages) as observers:
            soak.publish_strangers()
            with working(soak.watched):
                time.sleep(SECONDS / 2)
                soak.await_validation()
            soak.settle()
            undisturbed = Counted.of(soak)
            on_page, checks = soak.on_page(), soak.checks()
            series = {title: answered(observers.prometheus.url, title) for title in PANELS_OF_LONG_RUNS}
        with working(soak.watched):
            for number in range(KILLS):
                # By turns amid the files of a batch, and at any time: amid a start, a step, a commit.
                time.sleep(random.uniform(0, SECONDS / KILLS))
                soak.kill(amid_files=number % 2 == 0)
        soak.settle()
        killed = Counted.of(soak)
        soak.stop()
    found = Soaked(undisturbed, on_page, checks, series, killed, soak.archive)
    if FOLDER:
        figures = {
            "requests_before_the_kills": undisturbed.archived.total(),
            "requests": killed.archived.total(),
            "checks_before_the_kills": checks[0].total(),
            "calls_of_clients": len(killed.archived),
            "series": series,
            "files": len(list(soak.archive.rglob("*.parquet"))),
        }
        Path(FOLDER, "archive-soak.json").write_bytes(msgspec.json.encode(figures))
    return found


def answered(prometheus: str, title: str) -> list[int]:
    """Return the number of series of each query of a panel, once all have some or in the end."""
    queries_of_panel = queries(panel("kipwatch-pipeline", title), span="1h", rate="1m")
    found: list[int] = []
    for _ in range(60):
        found = [len(series_of(prometheus, query, over_seconds=600)) for query in queries_of_panel]
        if all(found):
            break
        time.sleep(1.0)  # Until the next scrape.
    return found


def has_each_request_once(counted: Counted) -> bool:
    """Whether the archive has all that was published, and beyond the log only what got no response."""
    logged, (published, unanswered), in_archive = counted
    return in_archive == published and logged <= in_archive and in_archive - logged <= unanswered


def test_the_archive_has_the_requests_of_the_brokers_log(soaked: Soaked) -> None:
    assert has_each_request_once(soaked.undisturbed)
    assert soaked.undisturbed.logged.total() > SECONDS


def test_the_metrics_page_has_them_too(soaked: Soaked) -> None:
    by_version: Counter[tuple[str, int]] = Counter()
    for (api, version, _), count in soaked.undisturbed.archived.items():
        by_version[api, version] += count
    assert soaked.on_page == by_version


def test_the_metrics_page_has_its_checks_of_rules(soaked: Soaked) -> None:
    in_archive, on_page = soaked.checks
    assert in_archive == on_page
    assert in_archive.total() > SECONDS


@pytest.mark.parametrize("title", PANELS_OF_LONG_RUNS)
def test_panels_that_a_demo_is_too_short_for_show_something(soaked: Soaked, title: str) -> None:
    assert all(soaked.series[title])


def test_it_has_them_once_after_ten_kills(soaked: Soaked) -> None:
    assert has_each_request_once(soaked.killed)
    assert soaked.killed.logged.total() > soaked.undisturbed.logged.total()


def test_its_audit_is_green(soaked: Soaked) -> None:
    assert main(["audit", "--archive", str(soaked.archive)]) == 0
