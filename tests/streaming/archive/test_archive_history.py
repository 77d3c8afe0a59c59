"""What an archive holds by week is what its tables hold, added up as DuckDB does it."""

from __future__ import annotations

import importlib
import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from decoders.schema.registry import default_schemas
from expectations.judging.terms import Terms
from expectations.report.history_page import PolicyHistory, PolicyWeek, history_page
from expectations.report.versions import versions_view
from streaming.archive.archive import CaptureArchive
from streaming.archive.archive_report import MOST_WEEKS, archived_history
from streaming.check.examination import examine
from streaming.commands.main import main
from streaming.settings.owners import Owner, owners_of
from streaming.user_error import UserError
from tests.exchange import Exchange
from tests.expectations.report.test_page import outline_of
from tests.streaming.captures import write_capture

MONDAYS = ("2026-06-22", "2026-06-29", "2026-07-13")
SUNDAY = "2026-07-05T23:59:58"
SECOND = 1_000_000_000
POLICY = {
    "name": "team",
    "meta": {"table": "usage"},
    "expectations": [
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "client_software_version", "value_set": ["1.0"]},
            "meta": {"id": "first-version", "says": "Every client is of version 1.0 & no other."},
        }
    ],
}


def capture(folder: Path, day: str, version: str, requests: int) -> Path:
    """Requests of a software, all but the first of an API that the broker does not list."""
    at = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * SECOND
    exchange = Exchange(at=at)
    software = {"clientSoftwareName": "tester", "clientSoftwareVersion": version}
    listed = {"errorCode": 0, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]}
    exchange.respond(exchange.request("ApiVersions", 3, software, client_id="app"), listed)
    for _ in range(requests):
        exchange.respond(exchange.request("Metadata", 12, client_id="app"))
    exchange.close()
    return write_capture(folder / f"{day[:10]}.pcap", exchange)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weeks")
    days = zip((*MONDAYS, SUNDAY), ("1.0", "1.0", "<b>2.0</b>", "1.0"), (3, 4, 5, 6), strict=True)
    for number, (day, version, requests) in enumerate(days):
        written = CaptureArchive(str(folder / "archive"), default_schemas().api_names)
        owner = "<i>payments" if number < 3 else "search"
        terms = Terms(owner_of=owners_of([Owner(owner, client_id="a*")]).of if number else None)
        examine(capture(folder, day, version, requests), default_schemas(), terms=terms, archive=written)
    return folder / "archive"


def test_a_week_has_what_its_days_have(archive: Path) -> None:
    history = archived_history(archive)
    assert list(history.weeks) == list(MONDAYS)
    assert history.software == {
        ("tester", "1.0"): {MONDAYS[0]: 4, MONDAYS[1]: 5 + 7},
        ("tester", "<b>2.0</b>"): {MONDAYS[2]: 6},
    }
    for table, key, amount in (("usage", "minute", "requests"), ("coverage", "captured_at", "checks")):
        sums = duckdb.execute(
            f"select date_trunc('week', {key} at time zone 'UTC')::date, sum({amount})::bigint "
            f"from read_parquet('{archive}/{table}/*/*.parquet') group by 1 order by 1"
        ).fetchall()
        found = dict.fromkeys(MONDAYS, 0)
        for week in MONDAYS:
            of_software = sum(weeks.get(week, 0) for weeks in history.software.values())
            found[week] = of_software if table == "usage" else sum(history.checks[week].values())
        assert {str(week): total for week, total in sums} == found


def test_a_weeks_findings_are_counted_by_owner_and_level(archive: Path) -> None:
    """Each once, however often it was published. The first week's clients are nobody's."""
    found = duckdb.execute(
        "select owner, date_trunc('week', captured_at at time zone 'UTC')::date, level, count(distinct id) "
        f"from read_parquet('{archive}/findings/*/*.parquet') "
        "where role = 'client' and not suppressed group by all"
    ).fetchall()
    owners = archived_history(archive).owners
    assert {
        (owner, week, level, count)
        for owner, weeks in owners.items()
        for week, levels in weeks.items()
        for level, count in levels.items()
    } == {(owner, str(week), level, count) for owner, week, level, count in found}
    assert owners.keys() == {None, "<i>payments", "search"}


def test_policies_are_judged_by_week(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "team.json").write_text(json.dumps(POLICY))
    # Each worker that collects this file would spend 3 s on Great Expectations.
    auditing = importlib.import_module("streaming.audit.audit")
    policies = auditing.policies_of(tmp_path / "team.json")
    (history,) = auditing.policies_by_week(archive, MONDAYS, default_schemas(), policies)
    assert (history.policy, history.says) == ("team", "Every client is of version 1.0 & no other.")
    assert {week: result.is_met for week, result in history.weeks.items()} == dict(
        zip(MONDAYS, (True, True, False), strict=True)
    )
    assert [history.weeks[week].rows for week in MONDAYS] == [2, 4, 2], "a week ends on its Sunday"
    assert history.weeks[MONDAYS[2]].unmet == 2


def test_only_what_policies_concern_may_be_too_large_for_them(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "team.json").write_text(json.dumps(POLICY))
    auditing = importlib.import_module("streaming.audit.audit")
    policies = auditing.policies_of(tmp_path / "team.json")
    monkeypatch.setattr(auditing, "MOST_ROWS", 4)
    assert auditing.audit_archive(archive, auditing.Days(), default_schemas()) is None
    assert auditing.policies_by_week(archive, MONDAYS, default_schemas(), policies)
    monkeypatch.setattr(auditing, "MOST_ROWS", 3)
    with pytest.raises(UserError, match=f"the week of {MONDAYS[1]} is too large"):
        auditing.policies_by_week(archive, MONDAYS, default_schemas(), policies)


def test_the_page_shows_software_rules_and_policies_by_week(archive: Path) -> None:
    history = archived_history(archive)._replace(
        policies=[PolicyHistory("team", "All <i>are</i> new.", {MONDAYS[2]: PolicyWeek(2, 1, is_met=False)})]
    )
    page = history_page("<archive>", history, versions_view((), (), {}, {}))
    outline = outline_of(page)
    shown = "".join(outline.text)
    for told in (
        "<archive>, 3 weeks, the last from 2026-07-13 on",
        "tester <b>2.0</b>",
        "All <i>are</i> new.",
        "1/2 ✕",
        "Whose clients offend, by week",
        "<i>payments",
        "nobody's",
    ):
        assert told in shown
    assert "<script" not in page and "<b>2.0" not in page and "<i>are" not in page and "<i>pay" not in page
    assert all((value or "").startswith("#") for name, value in outline.attributes if name == "href")
    (row,) = (line for line in page.splitlines() if 'id="kip511-software-version-malformed"' in line)
    assert [row.count(sign) for sign in ("1 ✓", "2 ✓", "1/1 ✕")] == [1, 1, 1]


def test_the_command_writes_the_page_with_the_policies_of_the_configuration(
    archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "team.json").write_text(json.dumps(POLICY))
    (tmp_path / "kipwatch.toml").write_text(f'policies = "{tmp_path / "team.json"}"\n')
    page = tmp_path / "page.html"
    flags = ["--html", str(page), "--config", str(tmp_path / "kipwatch.toml")]
    assert main(["report", str(archive), *flags]) == 0
    shown = "".join(outline_of(page.read_text()).text)
    assert "Every client is of version 1.0 & no other." in shown
    assert "22 requests, 3 weeks" in shown


def test_the_latest_weeks_are_shown(tmp_path: Path) -> None:
    schemas = default_schemas()
    days = [f"{year}-{month:02}-01" for year in (2024, 2025, 2026) for month in range(1, 13)]
    for day in days[: MOST_WEEKS + 1]:
        written = CaptureArchive(str(tmp_path / "archive"), schemas.api_names)
        examine(capture(tmp_path, day, "1.0", 1), schemas, archive=written)
    history = archived_history(tmp_path / "archive")
    assert len(history.weeks) == len(history.software["tester", "1.0"]) == MOST_WEEKS
    assert history.weeks[-1] == "2026-02-23"
