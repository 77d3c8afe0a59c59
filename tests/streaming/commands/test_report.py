"""`kipwatch report`: text, JSON and page; versions of brokers; features."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from decoders.schema.table import COMMITTED_TABLE
from streaming.commands.main import main
from tests.captures import planted, real_clients
from tests.streaming.commands.ran import WITHOUT_JAVA, Kipwatch, run_process

FEATURES = "share-groups = {76 = 1, 78 = 1}\nnew-groups = {ConsumerGroupHeartbeat = 0}\n"


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "features.toml"
    path.write_text(FEATURES)
    return path


def test_the_text_names_every_client_and_what_nobody_exercised(kipwatch: Kipwatch) -> None:
    ran = kipwatch("report", real_clients.CAPTURE)
    assert (ran.status, ran.errors) == (0, "")
    for expected in (
        "apache-kafka-java 4.4.0: 8 connections",
        "librdkafka-producer",
        "not exercised on anybody's connection:",
    ):
        assert expected in ran.output


def test_the_json_holds_clients_and_versions(kipwatch: Kipwatch, features: Path) -> None:
    report = json.loads(kipwatch("report", "--json", "--features", features, real_clients.CAPTURE).output)
    names = {client["client_software_name"] for client in report["summary"]["clients"]}
    assert names == {"apache-kafka-java", "confluent-kafka-python"}
    (broker,) = report["versions"]["brokers"]
    assert broker["ranges"] == report["versions"]["common"]
    share, new = report["versions"]["features"]
    assert (share["missing"], share["used_by"]) == ([], [])
    assert len(new["used_by"]) == 2


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The table of a release without the versions of Metadata that the Java clients of the capture use."""
    table = json.loads(COMMITTED_TABLE.read_text())
    for message in table["messages"]:
        if message["name"] in ("FetchRequest", "FetchResponse"):
            message["validVersions"] = "19-20"
    path = tmp_path / "later.json"
    path.write_text(json.dumps({**table, "release": "9.0.0"}))
    return path


def test_an_upgrade_is_judged_per_client(kipwatch: Kipwatch, later: Path, tmp_path: Path) -> None:
    junit, page = tmp_path / "upgrade.xml", tmp_path / "fleet.html"
    flags = ("--upgrade-to", later, "--from", "4.4.0", "--junit", junit, "--html", page)
    text, printed = (kipwatch("report", *flags, *more, real_clients.CAPTURE) for more in ((), ("--json",)))
    report = json.loads(printed.output)
    breaking = [each["client_id"] for each in report["upgrade_clients"] if each["breaks"]]
    assert breaking, report["upgrade"]
    assert (text.status, printed.status) == (1, 1)
    assert (report["upgrade_to"], report["upgrade_from"]) == ("9.0.0", "4.4.0")
    assert set(report["upgrade"][0]) >= {
        "client_software_name",
        "client_software_version",
        "client_id",
        "api",
        "api_key",
        "version",
        "verdict",
        "requests",
        "last_seen",
    }
    assert {row["verdict"] for row in report["upgrade"]} == {"removed", "kept"}
    assert text.output.splitlines()[-1].startswith("an upgrade to Kafka 9.0.0: ")
    assert "Upgrade to 9.0.0" in page.read_text() and "<failure" in junit.read_text()


def test_an_upgrade_to_the_release_in_use_breaks_nobody(kipwatch: Kipwatch) -> None:
    ran = kipwatch("report", "--upgrade-to", "4.4.0", real_clients.CAPTURE)
    assert ran.status == 0
    assert ran.output.splitlines()[-1] == "an upgrade to Kafka 4.4.0: 0 of 7 clients break"


def test_a_release_that_is_not_committed_is_named_by_a_jar(kipwatch: Kipwatch) -> None:
    ran = kipwatch("report", "--upgrade-to", "3.2.1", real_clients.CAPTURE)
    committed = default_schemas().release
    assert ran.error_line == f"3.2.1 is neither a file nor the committed release ({committed}): name a jar"


@pytest.mark.parametrize("flags", [("--from", "4.4.0"), ("--junit", "upgrade.xml")])
def test_flags_of_an_upgrade_alone_are_refused(kipwatch: Kipwatch, flags: tuple[str, str]) -> None:
    ran = kipwatch("report", *flags, real_clients.CAPTURE)
    assert ran.error_line == f"{flags[0]} belongs to --upgrade-to: name the release that the brokers will run"


def test_violations_do_not_fail_a_report(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    assert kipwatch("report", "--html", path, planted.CAPTURE).status == 0
    assert path.read_text().startswith("<!doctype html>")


def test_versions_of_two_brokers_are_shown_beside_those_in_common(kipwatch: Kipwatch, features: Path) -> None:
    captures = (planted.CAPTURE, real_clients.CAPTURE)
    output = kipwatch("report", "--versions", "--features", features, *captures).output
    assert "Produce (0)" in output
    assert "share-groups: every broker seen can serve it" in output
    view = json.loads(kipwatch("report", "--versions", "--json", *captures).output)
    assert len(view["brokers"]) == 2


def test_a_capture_without_frames_is_2(kipwatch: Kipwatch, captures: Path) -> None:
    assert "no capture holds a Kafka frame" in kipwatch("report", captures / "empty.pcap").error_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("share-groups = {Nonsense = 1}", "there is no API 'Nonsense'"),
        ("share-groups = {99999 = 1}", "there is no API '99999'"),
        ("share-groups = 1", "Expected `object`, got `int`"),
        ("share-groups", "write a feature as `name = {76 = 1, 78 = 1}`"),
    ],
)
def test_mistaken_features_are_one_line(
    kipwatch: Kipwatch, captures: Path, features: Path, text: str, expected: str
) -> None:
    features.write_text(text)
    assert expected in kipwatch("report", "--features", features, captures / "clean.pcap").error_line


@pytest.mark.slow
def test_report_runs_without_java(captures: Path) -> None:
    assert run_process("report", captures / "violating.pcap", **WITHOUT_JAVA).status == 0


def test_the_page_shows_suppressed_findings_with_their_reason(kipwatch: Kipwatch, tmp_path: Path) -> None:
    (tmp_path / "kipwatch.toml").write_text(
        '[[suppress]]\nrule = "kip35/range-inverted"\nreason = "a test"\nuntil = 2999-01-01'
    )
    page = tmp_path / "fleet.html"
    kipwatch("report", "--config", tmp_path / "kipwatch.toml", "--html", page, planted.CAPTURE)
    assert "until 2999-01-01: a test" in page.read_text()


def test_a_report_on_an_archive_names_the_files_that_are_missing(
    kipwatch: Kipwatch, archive: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(archive, tmp_path / "damaged")
    assert kipwatch("report", "--upgrade-to", "4.4.0", folder).errors == ""
    (lost,) = (folder / "connections").rglob("*.parquet")
    lost.unlink()
    errors = kipwatch("report", "--upgrade-to", "4.4.0", folder).errors
    assert f"lacks {lost.relative_to(folder)}" in errors and "kipwatch audit --archive" in errors


def test_a_damaged_file_of_a_table_that_no_version_is_read_from_is_one_line(
    kipwatch: Kipwatch, archive: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(archive, tmp_path / "damaged")
    next(folder.glob("coverage/day=*/*.parquet")).write_bytes(b"PAR1 is how it begins")
    assert f"cannot read the archive {folder}: " in kipwatch("report", "--versions", folder).error_line


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    assert main(["report", "--archive", str(folder), str(real_clients.CAPTURE)]) == 0
    return folder


def test_an_archive_tells_of_an_upgrade_what_its_captures_tell(
    kipwatch: Kipwatch, archive: Path, later: Path
) -> None:
    read, captured = (
        kipwatch("report", "--json", "--upgrade-to", later, source)
        for source in (archive, real_clients.CAPTURE)
    )
    found, expected = json.loads(read.output), json.loads(captured.output)
    assert (read.status, captured.status) == (1, 1)
    assert found["requests"] == sum(row["requests"] for row in found["upgrade"])
    for report in (found, expected):
        for row in [*report["upgrade"], *report["upgrade_clients"]]:
            del row["last_seen"]
            for nested in row.get("rows", ()):
                del nested["last_seen"]
    clients = [sorted(report["upgrade_clients"], key=str) for report in (found, expected)]
    assert clients[0] == clients[1]
    assert found["versions"] == expected["versions"]


def test_an_archive_is_a_gate_and_shows_versions_as_text(
    kipwatch: Kipwatch, archive: Path, later: Path, tmp_path: Path
) -> None:
    broken = kipwatch("report", "--upgrade-to", later, "--junit", tmp_path / "gate.xml", archive)
    assert broken.status == 1
    assert "removed; it has 19-20" in broken.output
    assert "<failure" in (tmp_path / "gate.xml").read_text()
    assert kipwatch("report", "--upgrade-to", "4.4.0", archive).status == 0
    assert "Produce (0)" in kipwatch("report", "--versions", archive).output


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), "no verdicts by client: add --upgrade-to, --versions or --html"),
        (("--versions", "--features", "features.toml"), "--features needs captures"),
        (("--versions", real_clients.CAPTURE), "is an archive: name it alone, or captures"),
    ],
)
def test_what_an_archive_cannot_tell_is_refused(
    kipwatch: Kipwatch, archive: Path, flags: tuple[object, ...], expected: str
) -> None:
    assert expected in kipwatch("report", *flags, archive).error_line
