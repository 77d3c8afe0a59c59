"""`kipwatch check`: its exit status, its JSON, and that it needs neither Spark nor Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from expectations.rules.catalogue import RULES
from tests.streaming.captures import conforming, violating, write_capture
from tests.streaming.commands.ran import WITHOUT_JAVA, Kipwatch

FOUND = {"kip511/software-name-malformed": 1, "kip1313/instance-id-changed": 2}


def test_nothing_violated_is_0(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("check", captures / "clean.pcap")
    assert (ran.status, ran.errors) == (0, "")
    assert "3 frames on 1 connection, 0 findings" in ran.output


def test_a_violation_is_1_and_is_shown(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("check", captures / "violating.pcap")
    assert (ran.status, ran.errors) == (1, "")
    assert all(rule in ran.output for rule in FOUND)
    assert "the client instance ID changed from AAECAwQFBgcICQoLDA0ODw" in ran.output


def test_undecided_alone_is_0(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """The same bytes are undecided if the capture lacks the beginning of the connection."""
    exchange = violating()
    del exchange.records[0:3]
    path = write_capture(tmp_path / "midway.pcap", exchange)
    report = json.loads(kipwatch("check", "--json", path).output)
    assert report["findings"] == []
    assert kipwatch("check", path).status == 0


def test_reports_are_written_if_nobody_reads_what_is_printed(captures: Path, tmp_path: Path) -> None:
    """A build that was stopped leaves its report."""
    report, (reading, writing) = tmp_path / "check.xml", os.pipe()
    os.close(reading)
    command: list[str | Path] = [sys.executable, "-m", "kipwatch", "check", "--json", "--junit", report]
    with os.fdopen(writing, "wb") as closed:
        subprocess.run(
            [*command, captures / "violating.pcap"], stdout=closed, stderr=subprocess.DEVNULL, check=False
        )
    assert b"kip511/software-name-malformed" in report.read_bytes()


def test_no_frame_is_2(kipwatch: Kipwatch, captures: Path) -> None:
    """A capture of the wrong port must not pass."""
    line = kipwatch("check", captures / "clean.pcap", "--ports", "9093").error_line
    assert "it holds no Kafka frame" in line


def test_a_file_that_is_named_by_two_paths_is_no_empty_one(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.pcap"
    link.symlink_to(captures / "clean.pcap")
    ran = kipwatch("check", link, captures / "clean.pcap")
    assert (ran.status, ran.errors) == (0, "")


def test_an_empty_file_is_called_so_and_is_2(kipwatch: Kipwatch, captures: Path) -> None:
    path = captures / "empty.pcap"
    assert kipwatch("check", path).error_line == f"{path} is empty: it holds no packet"


def test_the_complete_packets_of_a_truncated_file_are_judged(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("check", "--json", captures / "truncated.pcap")
    report = json.loads(ran.output)
    assert ran.status == 2
    assert ran.errors == (
        f"kipwatch: {captures / 'truncated.pcap'} ends inside a packet; all complete packets were read\n"
    )
    assert report["truncated"] is True
    assert {finding["rule"] for finding in report["findings"]} == FOUND.keys()


def test_the_json_is_one_object_with_findings_coverage_and_ledger(kipwatch: Kipwatch, captures: Path) -> None:
    (line,) = kipwatch("check", "--json", captures / "violating.pcap").output.splitlines()
    report = json.loads(line)
    assert {finding["rule"]: finding["occurrences"] for finding in report["findings"]} == FOUND
    assert [row["rule"] for row in report["coverage"]] == [rule.id for rule in RULES]
    reasons = {row["rule"]: row["reasons"] for row in report["coverage"] if row["undecided"]}
    assert reasons["kip35/version-out-of-range"] == {"not-asked": 2}
    assert report["frames"] == 4 and report["connections"] == 1 and report["truncated"] is False
    frames = [record.frame for record in violating().records if record.frame]
    assert report["ledger"] == {"framed": sum(4 + len(frame) for frame in frames), "lost": 0}


def test_evidence_leads_to_the_packet(kipwatch: Kipwatch, captures: Path) -> None:
    """The position is the byte offset of the packet's record; the frame is inside."""
    path = captures / "violating.pcap"
    report = json.loads(kipwatch("check", "--json", path).output)
    frames = {record.sequence: record.frame for record in violating().records}
    for finding in report["findings"]:
        evidence, frame = finding["evidence"], frames[finding["sequence"]]
        assert evidence["source"] == "violating.pcap"
        assert evidence["bytes"] == frame[:64].hex()
        assert frame in path.read_bytes()[evidence["position"] :][:400]


def test_the_worst_of_several_files_is_the_status(kipwatch: Kipwatch, captures: Path, tmp_path: Path) -> None:
    violation, empty = captures / "violating.pcap", captures / "empty.pcap"
    clean = write_capture(tmp_path / "clean.pcap", conforming("10.0.0.9:40000"))
    assert kipwatch("check", clean, violation).status == 1
    assert kipwatch("check", violation, clean).status == 1
    assert kipwatch("check", empty, violation, clean).status == 2


def test_ports_say_who_the_broker_is(kipwatch: Kipwatch, captures: Path) -> None:
    report = json.loads(kipwatch("check", "--json", "--ports", "9092, 9093", captures / "clean.pcap").output)
    assert report["frames"] == 3


def test_control_characters_of_the_wire_do_not_reach_the_terminal(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """A software name may hold escape sequences and line ends; a file's name may look like markup."""
    (tmp_path / "[").mkdir()
    path = write_capture(tmp_path / "[" / "red].pcap", violating("\x1b[2Jevil\nkipwatch: all is well"))
    ran = kipwatch("check", path)
    assert ran.status == 1
    assert "\x1b" not in ran.output
    assert "kipwatch: all is well" not in [line.strip() for line in ran.output.splitlines()]
    assert ran.output.startswith(f"{path}: ")


def test_check_needs_no_java_and_loads_no_spark(captures: Path) -> None:
    """It loads none of the other large libraries of the query, either."""
    script = (
        "import sys; from streaming.commands.main import main; status = main(sys.argv[1:]);"
        "heavy = {'pyspark', 'py4j', 'pandas', 'great_expectations', 'confluent_kafka'};"
        "sys.stderr.write(f'{status} {sorted(heavy & sys.modules.keys())}')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, "check", captures / "violating.pcap"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **WITHOUT_JAVA},
    )
    assert ran.stderr == "1 []"


def test_the_same_file_gives_the_same_report_under_any_name(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """Replay is idempotent: IDs depend on the content."""
    names = ("one.pcap", "two.pcap")
    reports = [
        json.loads(kipwatch("check", "--json", write_capture(tmp_path / name, violating())).output)
        for name in names
    ]
    ids = [[finding["id"] for finding in report["findings"]] for report in reports]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2


def test_a_capture_that_conforms_says_what_it_exercised(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """A rule without an opportunity is distinct from one that everything conformed to."""
    path = write_capture(tmp_path / "clean.pcap", conforming())
    lines = [line.rstrip() for line in kipwatch("check", "--coverage", path).output.splitlines()]
    (conforming_row,) = [line for line in lines if line.startswith("kip511/software-name-malformed")]
    row, needed = [line for line in lines if line.startswith("kip1313/instance-id-zero")]
    assert conforming_row.endswith("conforms")
    assert row.endswith("not exercised")
    assert needed == "kip1313/instance-id-zero needs a request on header v3"
