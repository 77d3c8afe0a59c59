"""What `check` prints for people, on narrow and wide terminals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from decoders.wire.segment import TcpFlag
from expectations.report.client import Client
from expectations.report.terminal import client_lines
from expectations.rules.catalogue import RULES
from tests.captures import planted, real_clients
from tests.decoders.wire.columnar.forging import AT, FAR, PACKETS, like
from tests.streaming.captures import conforming, write_capture, write_packets
from tests.streaming.commands.ran import Kipwatch

WIDTHS = (60, 100, 200)
Lines = Callable[..., list[str]]


@pytest.fixture
def lines_of(kipwatch: Kipwatch, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """Run `check` at a terminal's width, and return what it prints."""

    def run(*arguments: object, width: int = 100) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        return kipwatch("check", *arguments).output.splitlines()

    return run


def test_the_verdict_is_the_last_line(lines_of: Lines, tmp_path: Path) -> None:
    last = lines_of(planted.CAPTURE)[-1]
    found = r"\d+ violations, \d+ improvements, \d+ information by \d+ clients and 1 broker"
    expected = rf"{found}; (\d+) of (\d+) rules exercised"
    matched = re.fullmatch(expected, last)
    assert matched, last
    assert int(matched[1]) < int(matched[2]) == len(RULES)
    clean = write_capture(tmp_path / "clean.pcap", conforming())
    assert re.fullmatch(rf"no findings; \d+ of {len(RULES)} rules exercised", lines_of(clean)[-1])


def test_the_verdict_counts_what_json_lists(kipwatch: Kipwatch, captures: Path) -> None:
    last = kipwatch("check", captures / "violating.pcap").output.splitlines()[-1]
    assert last.startswith("2 violations by 1 client; ")


@pytest.mark.parametrize(("name", "status"), [("clean.pcap", 0), ("violating.pcap", 1), ("empty.pcap", 2)])
def test_quiet_is_the_verdict_alone(kipwatch: Kipwatch, captures: Path, name: str, status: int) -> None:
    loud, quiet = kipwatch("check", captures / name), kipwatch("check", "--quiet", captures / name)
    assert (loud.status, quiet.status) == (status, status)
    assert quiet.output.splitlines() == loud.output.splitlines()[-1:]


def test_each_client_has_a_line(lines_of: Lines) -> None:
    """With the requests that JSON counts; a client without a name is one, too."""
    report = json.loads("\n".join(lines_of("--json", real_clients.CAPTURE)))
    shown = [line for line in lines_of(real_clients.CAPTURE) if line.startswith("client ")]
    assert len(shown) == len(report["clients"]) > 1
    for client in report["clients"]:
        name = f"{client['client_software_name'] or 'unknown'} {client['client_software_version'] or ''}"
        requests = f"{client['requests']:,} request"
        assert any(line.startswith(f"client {name.strip()}: {requests}") for line in shown), name


def test_forged_segments_are_counted(lines_of: Lines, tmp_path: Path) -> None:
    line = "segments that contradict others, forged or damaged: reset 1"
    packets = [*PACKETS[:AT], like(PACKETS[AT], flags=TcpFlag.RST, sequence=FAR), *PACKETS[AT:]]
    assert line in lines_of(write_packets(tmp_path / "forged.pcap", packets))
    assert line not in lines_of(write_packets(tmp_path / "clean.pcap", PACKETS))


def test_of_invented_clients_the_busiest_are_listed() -> None:
    """A name that would move the cursor is shown as text."""
    counts = dict.fromkeys((f"name-{number}" for number in range(100)), 1) | {"busy\x1b[2J": 7}
    shown = [line.plain for line in client_lines([client(*each) for each in counts.items()])]
    assert shown[0] == "client busy\\x1b[2J 1.0: 7 requests on 1 connection, as app"
    assert (len(shown), shown[-1]) == (21, "and 81 more; --json lists all")


def client(name: str, requests: int) -> Client:
    return Client(name, "1.0", 1, requests, ["app"], [], 0, 0, [], [])


def test_what_is_suppressed_is_counted_apart(kipwatch: Kipwatch, captures: Path, tmp_path: Path) -> None:
    config = tmp_path / "kipwatch.toml"
    config.write_text('[[suppress]]\nrule = "kip511/*"\nreason = "known"\nuntil = 2999-01-01')
    ran = kipwatch("check", "--quiet", "--config", config, captures / "violating.pcap")
    assert ran.output.startswith("1 violation by 1 client; 1 finding suppressed; ")


def test_rules_that_had_nothing_to_judge_are_numbers_unless_asked_for(lines_of: Lines) -> None:
    short, long = ("\n".join(lines_of(planted.CAPTURE, *flags)) for flags in ([], ["--coverage"]))
    silent = re.search("rules that had nothing to judge: (.*); --coverage lists them", short)
    assert silent
    numbers = re.findall(r"(?:(\d+) of|all) (\d+) of [\w-]+", silent[1])
    assert len(numbers) == silent[1].count(", ") + 1
    assert long.count("not exercised") == sum(int(some or every) for some, every in numbers)
    assert "not exercised" not in short
    assert "had nothing to judge" not in long


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("capture", [planted.CAPTURE, real_clients.CAPTURE], ids=["planted", "real"])
def test_nothing_is_cut_off_however_wide_the_terminal_is(lines_of: Lines, capture: Path, width: int) -> None:
    lines = lines_of(capture, "--coverage", width=width)
    assert not [line for line in lines if "…" in line]
    assert {rule.id for rule in RULES} <= {line.split()[0] for line in lines if line}
    # Lines that people and scripts copy are not broken: those with a file's name, the ledger, the verdict.
    assert not [line for line in lines[3:-1] if len(line) > width]


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_stand_under_each_other(lines_of: Lines, width: int) -> None:
    lines = lines_of(planted.CAPTURE, width=width)
    start = next(number for number, line in enumerate(lines) if line.startswith("rule "))
    rows = [line for line in lines[start + 1 :] if re.match(r"(kip\d+|wire)/", line)]
    ends = {tuple(found.end() for found in re.finditer(r"(?<=\s)\d+(?=\s)", row)) for row in rows}
    assert len(rows) > 30
    assert len(ends) == 1


def test_only_violations_are_called_violated(lines_of: Lines) -> None:
    states = {line.split()[0]: line.split()[-1] for line in lines_of(planted.CAPTURE) if "/" in line}
    assert states["kip1313/instance-id-changed"] == "violated"
    assert states["kip1313/instance-id-not-lifelong"] == "information"
    assert states["kip1313/instance-id-reserved"] == "improvement"


def test_one_is_written_in_the_singular(lines_of: Lines) -> None:
    for capture in (planted.CAPTURE, real_clients.CAPTURE):
        assert not re.search(
            r"\b1 (findings|frames|connections|violations|times)\b", "\n".join(lines_of(capture))
        )
