"""`kipwatch check`: several files, its other forms of output, decisions in a configuration, evidence."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from expectations.rules.catalogue import RULES
from tests.captures import planted, real_clients
from tests.exchange import SOFTWARE, Exchange, advertisement
from tests.streaming.captures import packets_of, violating, write_capture, write_packets
from tests.streaming.commands.ran import Kipwatch

CHANGED, MALFORMED = "kip1313/instance-id-changed", "kip511/software-name-malformed"
SUPPRESSED = f"""
[[suppress]]
rule = "{CHANGED}"
client_software_name = "RP Console"
reason = "fixed in 2.0"
until = 2999-01-01

[[suppress]]
rule = "{MALFORMED}"
reason = "long ago"
until = 2001-01-01
"""


def configured(folder: Path, text: str) -> Path:
    path = folder / "kipwatch.toml"
    path.write_text(text)
    return path


@pytest.fixture
def improvement(tmp_path: Path) -> Path:
    """A capture with one finding, of level improvement."""
    exchange = Exchange()
    body = {"groupId": "g", "memberId": "", "memberEpoch": 5}
    exchange.request("ConsumerGroupHeartbeat", 0, body, client_id="app")
    return write_capture(tmp_path / "improvement.pcap", exchange)


def test_pseudonyms_leave_no_evidence_of_whole_frames(
    kipwatch: Kipwatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIPWATCH_KEY", "k" * 32)
    config = configured(tmp_path, 'identities = "keyed-hash"\nidentities_key = "env:KIPWATCH_KEY"\n')
    ran = kipwatch("check", "--config", config, "--json", planted.CAPTURE)
    assert "127.0.0.1:" in ran.output and '"client":"127.0.0.1:' not in ran.output
    refused = kipwatch("check", "--config", config, "--evidence", tmp_path / "evidence", planted.CAPTURE)
    assert refused.error_line.startswith("--evidence writes plain frames")
    assert not (tmp_path / "evidence").exists()


def test_several_files_are_one_object(kipwatch: Kipwatch) -> None:
    ran = kipwatch("check", "--json", planted.CAPTURE, real_clients.CAPTURE)
    together = json.loads(ran.output)
    apart = [
        json.loads(kipwatch("check", "--json", each).output)
        for each in (planted.CAPTURE, real_clients.CAPTURE)
    ]
    for name in ("frames", "connections", "opaque"):
        assert together[name] == sum(each[name] for each in apart)
    for name in ("findings", "files", "clients"):
        assert len(together[name]) == sum(len(each[name]) for each in apart)
    assert together["ledger"]["framed"] == sum(each["ledger"]["framed"] for each in apart)
    for at, row in enumerate(together["coverage"]):
        assert row["conforms"] == sum(each["coverage"][at]["conforms"] for each in apart)


@pytest.fixture
def pieces(tmp_path: Path) -> list[Path]:
    """A capture with two violations, split after the first of them."""
    packets = packets_of(violating())
    parts = {"early.pcap": packets[:5], "late.pcap": packets[5:]}
    return [write_packets(tmp_path / name, part) for name, part in parts.items()]


def test_pieces_of_one_capture_are_judged_as_one(
    kipwatch: Kipwatch, captures: Path, pieces: list[Path]
) -> None:
    """The order does not matter. A finding names the piece and the packet in it."""
    whole = json.loads(kipwatch("check", "--json", captures / "violating.pcap").output)
    for named in (pieces, pieces[::-1], [*pieces, pieces[0]]):
        report = json.loads(kipwatch("check", "--json", *named).output)
        found = [(finding["rule"], finding["occurrences"]) for finding in report["findings"]]
        assert found == [(finding["rule"], finding["occurrences"]) for finding in whole["findings"]]
        assert (report["coverage"], report["connections"]) == (whole["coverage"], 1)
        assert {each["file"]: each["frames"] for each in report["files"]} == dict.fromkeys(
            map(str, pieces), 2
        )
        places = [(each["evidence"]["source"], each["evidence"]["packet"]) for each in report["findings"]]
        assert places == [("early.pcap", 4), ("late.pcap", 1)]


def test_evidence_of_pieces_can_be_checked_alone(
    kipwatch: Kipwatch, tmp_path: Path, pieces: list[Path]
) -> None:
    assert kipwatch("check", "--evidence", tmp_path / "e", *pieces).errors == ""
    assert [kipwatch("check", path).status for path in sorted((tmp_path / "e").iterdir())] == [1, 1]


def test_the_truncated_piece_is_named(kipwatch: Kipwatch, pieces: list[Path]) -> None:
    pieces[0].write_bytes(pieces[0].read_bytes()[:-1])
    ran = kipwatch("check", *pieces)
    assert ran.errors == f"kipwatch: {pieces[0]} ends inside a packet; all complete packets were read\n"
    assert ran.status == 2


def test_a_folder_is_judged_as_one_capture(kipwatch: Kipwatch, tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(planted.CAPTURE.read_bytes())
    assert kipwatch("check", tmp_path).status == 1


def test_jsonl_is_a_finding_a_line(kipwatch: Kipwatch, captures: Path) -> None:
    ran = kipwatch("check", "--jsonl", captures / "violating.pcap")
    assert {json.loads(line)["rule"] for line in ran.output.splitlines()} == {CHANGED, MALFORMED}
    assert ran.status == 1


def test_a_finding_names_the_packet_that_its_frame_begins_in(kipwatch: Kipwatch, captures: Path) -> None:
    """After the three packets of the handshake, each packet carries a frame."""
    ran = kipwatch("check", "--jsonl", captures / "violating.pcap")
    for finding in map(json.loads, ran.output.splitlines()):
        assert finding["evidence"]["packet"] == finding["sequence"] + 2


def test_an_improvement_is_shown_and_does_not_fail_a_build(kipwatch: Kipwatch, improvement: Path) -> None:
    """It is a violated *should*."""
    ran = kipwatch("check", "--json", improvement)
    assert [finding["level"] for finding in json.loads(ran.output)["findings"]] == ["improvement"]
    assert ran.status == 0


@pytest.mark.parametrize(
    ("level", "status"), [("violation", 0), ("improvement", 1), ("information", 1), ("never", 0)]
)
def test_the_level_that_fails_is_chosen(
    kipwatch: Kipwatch, improvement: Path, level: str, status: int
) -> None:
    assert kipwatch("check", "--fail-on", level, improvement).status == status


def test_never_does_not_fail(kipwatch: Kipwatch, captures: Path) -> None:
    assert kipwatch("check", "--fail-on", "never", captures / "violating.pcap").status == 0


def test_junit_fails_what_fails_the_check(kipwatch: Kipwatch, improvement: Path, tmp_path: Path) -> None:
    for level, failing in (("violation", []), ("improvement", ["kip1082/member-id-empty"])):
        kipwatch("check", "--junit", tmp_path / "report.xml", "--fail-on", level, improvement)
        cases = ET.parse(tmp_path / "report.xml").iter("testcase")
        assert [case.get("name") for case in cases if case.find("failure") is not None] == failing


def test_a_suppressed_finding_does_not_count_and_is_still_listed(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    path = configured(tmp_path, SUPPRESSED)
    ran = kipwatch("check", "--json", "--config", path, captures / "violating.pcap")
    report = json.loads(ran.output)
    assert [finding["rule"] for finding in report["findings"]] == [MALFORMED]
    (suppressed,) = report["suppressed"]
    assert (suppressed["rule"], suppressed["suppressed"]["reason"]) == (CHANGED, "fixed in 2.0")
    assert "the suppression of kip511/software-name-malformed (long ago) expired on 2001-01-01" in ran.errors
    assert ran.status == 1


def test_jsonl_holds_suppressed_findings_with_their_reason(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    path = configured(tmp_path, SUPPRESSED)
    ran = kipwatch("check", "--jsonl", "--config", path, captures / "violating.pcap")
    found = {line["rule"]: line.get("suppressed") for line in map(json.loads, ran.output.splitlines())}
    assert found == {MALFORMED: None, CHANGED: {"reason": "fixed in 2.0", "until": "2999-01-01"}}


def test_suppressions_are_shown_to_a_person(kipwatch: Kipwatch, captures: Path, tmp_path: Path) -> None:
    path = configured(tmp_path, SUPPRESSED)
    output = kipwatch("check", "--config", path, captures / "violating.pcap").output
    assert "suppressed findings: 1" in output
    assert "until 2999-01-01: fixed in 2.0" in output
    assert "expired on 2001-01-01" in output


def test_with_all_violations_suppressed_the_check_passes(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    path = configured(tmp_path, SUPPRESSED.replace("2001", "2998"))
    assert kipwatch("check", "--config", path, captures / "violating.pcap").status == 0


def test_a_disabled_rule_has_no_coverage_and_is_named(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    path = configured(tmp_path, f'disable = ["{CHANGED}"]\n[levels]\n"{MALFORMED}" = "information"')
    ran = kipwatch("check", "--json", "--config", path, captures / "violating.pcap")
    report = json.loads(ran.output)
    assert (ran.status, report["disabled"]) == (0, [CHANGED])
    assert len(report["coverage"]) == len(RULES) - 1
    assert (
        f"disabled by configuration: {CHANGED}"
        in kipwatch("check", "--config", path, captures / "violating.pcap").output
    )


def test_a_decision_on_a_rule_that_does_not_exist_is_one_line(
    kipwatch: Kipwatch, captures: Path, tmp_path: Path
) -> None:
    config = configured(tmp_path, 'disable = ["nonsense"]')
    line = kipwatch("check", "--config", config, captures / "clean.pcap").error_line
    assert "there is no rule 'nonsense'" in line


@pytest.mark.parametrize(("flags", "status"), [([], 1), (["--spec", "kip1082=text"], 0)])
def test_a_kip_is_judged_in_the_chosen_reading(
    kipwatch: Kipwatch, tmp_path: Path, flags: list[str], status: int
) -> None:
    """The text of KIP-1082 does not require a member ID in version 1."""
    exchange = Exchange()
    body = {"groupId": "g", "memberId": "", "memberEpoch": 0}
    exchange.request("ConsumerGroupHeartbeat", 1, body, client_id="app")
    capture = write_capture(tmp_path / "heartbeat.pcap", exchange)
    ran = kipwatch("check", "--json", *flags, capture)
    rules = {finding["rule"] for finding in json.loads(ran.output)["findings"]}
    assert (ran.status, "kip1082/member-id-empty" in rules) == (status, bool(status))


def test_the_configuration_identifies_a_broker(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """No frame of the capture does. The evidence needs the same configuration."""
    exchange = Exchange()
    body = SOFTWARE | {"clusterId": "orders", "nodeId": 4}
    exchange.respond(exchange.request("ApiVersions", 5, body, client_id="app"), advertisement())
    exchange.close()
    capture = write_capture(tmp_path / "misrouted.pcap", exchange)
    listener = '[[listener]]\naddress = "10.0.0.2:9092"\nname = "ORDERS"\ncluster_id = "orders"\nnode_id = 3'
    flags = ("--config", configured(tmp_path, listener), "--evidence", tmp_path / "evidence")
    assert kipwatch("check", capture).status == 0
    ran = kipwatch("check", "--json", *flags, capture)
    (finding,) = json.loads(ran.output)["findings"]
    assert (finding["rule"], finding["listener"]) == ("kip1242/misrouted-accepted", "ORDERS")
    assert (ran.status, ran.errors) == (1, "")


def test_what_cannot_be_written_is_one_line(kipwatch: Kipwatch, captures: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file" / "inside"
    for flag in ("--junit", "--evidence"):
        ran = kipwatch("check", flag, inside, captures / "violating.pcap")
        assert "cannot write" in ran.error_line
