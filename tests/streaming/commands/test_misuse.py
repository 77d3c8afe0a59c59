"""Every mistake of a user is an error of one line with status 2, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.commands.main import COMMANDS, main
from tests.streaming.commands.ran import Kipwatch, run_process

UNREADABLE = {
    "missing.pcap": "No such file or directory",
    "nothing.pcap": "empty: it holds not a single byte",
    "text.pcap": "not a pcap file",
    "next.pcapng": "damaged: a section of no known byte order",
}
MISTAKEN = [
    (["chekc", "x"], "there is no command 'chekc'; did you mean check?"),
    (["check", "--prots", "9092", "x"], "unrecognized arguments: --prots; did you mean --ports?"),
    (["check", "--fail-on", "violations", "x"], "did you mean violation?"),
    (["nonsense"], "there is no command 'nonsense'; see `kipwatch --help`"),
    (["--nonsense"], "there is no command '--nonsense'"),
    (["check"], "the following arguments are required: FILE; see `kipwatch check --help`"),
    (["check", "--gibberish", "x"], "unrecognized arguments: --gibberish; see `kipwatch check --help`"),
    (["check", "--js", "x"], "unrecognized arguments: --js"),
    (["check", "--ports", "nine", "x"], "numbers from 1 to 65535, separated by commas, not 'nine'"),
    (["check", "--ports", "1,70000", "x"], "numbers from 1 to 65535, separated by commas, not '1,70000'"),
    (["check", "--ports=-5", "x"], "numbers from 1 to 65535, separated by commas, not '-5'"),
    (["check", ""], "argument FILE: the path is empty"),
    (["check", "--evidence", "", "x"], "argument --evidence: the path is empty"),
    (["feed", ""], "argument FILE: the path is empty"),
    (["decode", "--kind", "both", "x"], "invalid choice: 'both'"),
    (["decode", "--api", "apiversions", "x"], "there is no API 'apiversions'"),
    (["rules", "kip1313/nonsense"], "there is no rule 'kip1313/nonsense'; `kipwatch rules` lists them"),
    (
        ["check", "--junit", "missing/x.xml", "x"],
        "argument --junit: cannot write 'missing/x.xml': there is no",
    ),
    (["probe", "--junit", "missing/x.xml", "127.0.0.1:1"], "there is no folder 'missing'"),
    (["report", "--html", "missing/x.html", "x"], "there is no folder 'missing'"),
    (["audit", "--html", "missing/x.html"], "there is no folder 'missing'"),
    (["rules", "kip35", "kip511"], "name one rule or family: 'kip511' is too much"),
    (["demo", "--recording", "missing/x.pcap"], "cannot write the recording: there is no folder missing"),
    (["demo", "--seconds", "long"], "argument --seconds: invalid float value: 'long'"),
    (
        ["feed", "--ports", "nine"],
        '--ports: ports[0] is "nine"; allowed is a whole number from 1 to 65535',
    ),
    (["feed", "--ports", "70000"], "--ports: ports[0] is 70000; allowed"),
    (["feed", "--log-level", "loud"], "allowed is one of debug, info, warning, error"),
    (["check", "--keep", "user", "x"], '--keep: keep[0] is "user"; allowed is principal'),
    (["feed", "--ring-mebibytes", "99999999999"], 'ring_mebibytes is "99999999999"; allowed'),
    (["feed", "--queue-mebibytes", "99999999999"], 'queue_mebibytes is "99999999999"; allowed'),
    (["check", "--max-request-bytes", "9999999999", "x"], 'max_request_bytes is "9999999999"; allowed'),
    (["feed", "--cluster", "ä" * 13], "at most 24 bytes are allowed"),
    (["run", "--buckets", "0"], '--buckets: buckets is "0"; allowed is a whole number from 1'),
    (["run", "--spec", "kip9=text"], "spec: 'kip9=text' names no KIP"),
    (["check", "--spec", "kip9=text", "x"], "spec: 'kip9=text' names no KIP"),
    (["check", "--spec", "kip1082=loose", "x"], "spec: 'kip1082=loose' names no "),
    (["demo", "--spec", "kip9=text"], "spec: 'kip9=text' names no KIP"),
    (["run", "--config", "missing.toml"], "cannot read the configuration missing.toml"),
    (["schemas", "list", "missing.jar"], "missing.jar is neither a file nor the committed release"),
    (["schemas", "diff", "committed"], "the following arguments are required: NEWER"),
    (
        ["schemas", "diff", "committed", "missing.jar"],
        "missing.jar is neither a file nor the committed release",
    ),
    (["schemas", "nonsense"], "invalid choice: 'nonsense'"),
    (["check", "--schemas", "missing.jar", "x"], "missing.jar is neither a file nor the committed release"),
    (["decode", "--schemas", "missing.jar", "x"], "missing.jar is neither a file nor the committed release"),
    (["run", "--schemas", "missing.jar"], "missing.jar is neither a file nor the committed release"),
    (["schemas", "import", "missing.jar"], "missing.jar: not a readable jar"),
]
CONFIGURATIONS = [
    (b"bukets = 3", ":1: there is no setting bukets; did you mean buckets?"),
    (b"# a\n\nzzz = 3", ":3: there is no setting zzz; it is one of after_loss, "),
    (
        b"[[listener]]\naddress = 'x'\n[[listener]]\nadress = 'x'",
        ":4: there is no setting adress; did you mean a",
    ),
    (b"\n[[listener]]\nname = 'x'", ":2: listener[0] lacks the setting address"),
    (b"\nbuckets = 'many'", ':2: buckets is "many"; allowed is a whole number from 1'),
    (b"ports = [\n  9092,\n  70000]", ":1: ports[1] is 70000; allowed is a whole number from 1 to 65535"),
    (b"interface = [3]", ":1: interface[0] is 3; allowed is text in quotes"),
    (b"after_loss = 'yes'", ':1: after_loss is "yes"; allowed is true or false'),
    (
        b"[topics.frames]\npartitions = 0",
        ":2: topics.frames.partitions is 0; allowed is a whole number from 1",
    ),
    (
        b"[topics]\nframes.retention_hours = 0",
        ":2: topics.frames.retention_hours is 0; allowed is a number above 0",
    ),
    (b"[topics]\nfindngs = 0", ":2: there is no setting findngs; did you mean findings?"),
    (
        b"[levels]\n'wire/not-kafka' = 'violation'\n'wire/unknown-api' = 'grave'",
        ':3: levels.wire/unknown-api is "grave"; allowed is one of violation, improvement, information',
    ),
    (
        b"[kafka]\nx = 1.5",
        ":2: kafka.x is 1.5; allowed is text in quotes, or a whole number, or true or false",
    ),
    (
        b"[[suppress]]\nrule = 'x'\nreason = ''\nuntil = 2026-01-01",
        ':3: suppress[0].reason is ""; allowed is text in quotes that is not empty',
    ),
    (b"[[suppress]]\nrule = 'x'\nuntil = 2999-01-01", ":1: suppress[0] lacks the setting reason"),
    (
        b"[[suppress]]\nrule = 'x'\nreason = 'y'\nuntil = 'soon'",
        ':4: suppress[0].until is "soon"; allowed is a day such as 2026-12-31',
    ),
    (b"[[exclude]]\naddress = '10.0.0.300'", "write an address or a network such as 10.0.0.0/8"),
    (b"[[exclude]]", ":1: exclude[0] is {}; Expected either `address` or `client_id`"),
    (b"[[exclude]]\naddress = '10.0.0.1/8'", "10.0.0.1/8 has host bits set; write"),
    (b"cluster = 'a name that is far too long'", 'far too long"; at most 24 bytes are allowed'),
    (b"identities = 'hidden'", 'identities is "hidden"; allowed is one of plain, keyed-hash'),
    (b"buckets == 3", "is not TOML"),
    (b"\xff\xfe", "is not TOML"),
]


@pytest.fixture
def port_in_use() -> Iterator[int]:
    """A port that is listened on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("command", ["check", "decode", "feed"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_read(kipwatch: Kipwatch, captures: Path, command: str, name: str) -> None:
    """The line names the file and the reason."""
    line = kipwatch(command, captures / name).error_line
    assert str(captures / name) in line
    assert UNREADABLE[name] in line


@pytest.mark.parametrize("command", ["check", "decode", "report", "feed", "schemas list", "draft"])
def test_a_file_in_a_folder_that_may_not_be_entered(
    kipwatch: Kipwatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The kernel does not tell whether the file exists. It refuses root nothing, so its answer is made."""
    locked, stat = tmp_path / "locked", os.stat

    def refuse(path: Any, **how: Any) -> os.stat_result:
        if str(path).startswith(str(locked)):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refuse)
    line = kipwatch(*command.split(), locked / "a.pcap").error_line
    assert line.startswith(f"cannot use '{locked}/") and line.endswith(": Permission denied")


@pytest.mark.parametrize("command", ["check", "decode", "report", "feed"])
def test_names_of_many_files_that_are_quoted_as_one(kipwatch: Kipwatch, command: str) -> None:
    """As in "$(ls)"."""
    assert kipwatch(command, "a.pcap\n" * 100).error_line.endswith(": File name too long")


@pytest.mark.parametrize("command", ["check", "decode"])
def test_a_file_that_is_damaged_in_the_middle(kipwatch: Kipwatch, captures: Path, command: str) -> None:
    """The line names the byte; the header of the file is intact."""
    line = kipwatch(command, captures / "damaged.pcap").error_line
    assert "damaged.pcap: damaged: the packet at byte" in line


def test_what_comes_before_damage_is_judged(kipwatch: Kipwatch, captures: Path) -> None:
    """As in a file that is cut off, and in one whose damage comes before the first packet."""
    files = captures / "violating.pcap", captures / "damaged.pcap"
    sound, damaged = (json.loads(kipwatch("check", "--json", file).output) for file in files)
    assert damaged["findings"] and damaged["coverage"] == sound["coverage"]
    ran = kipwatch("report", captures / "damaged.pcap")
    assert (ran.status, ran.errors.count("\n")) == (2, 1)
    path = captures / "header.pcap"
    path.write_bytes((captures / "empty.pcap").read_bytes() + b"\xff" * 40)
    assert "damaged: the packet at byte 24" in kipwatch("check", path).error_line


def test_a_file_that_is_cut_off_and_holds_no_frame_at_the_ports_says_so(
    kipwatch: Kipwatch, captures: Path
) -> None:
    line = kipwatch("check", "--ports", "1", captures / "truncated.pcap").error_line
    assert line.endswith(
        "it holds no Kafka frame; check the file and --ports, and if it is TLS, --tls-keylog"
    )


@pytest.mark.parametrize("command", ["check", "decode"])
def test_a_folder_with_a_file_that_is_no_capture(kipwatch: Kipwatch, tmp_path: Path, command: str) -> None:
    """The line names the file, not only the folder."""
    (tmp_path / "notes.txt").write_text("no capture")
    assert str(tmp_path / "notes.txt") in kipwatch(command, tmp_path).error_line


def test_the_file_that_is_fed_is_not_saved_over(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """This holds under any name of the file, whose contents would be lost."""
    path, link = tmp_path / "a.pcap", tmp_path / "b.pcap"
    path.write_bytes(b"a capture")
    link.symlink_to(path)
    assert f"--save would overwrite {link}" in kipwatch("feed", path, "--save", link).error_line
    assert path.read_bytes() == b"a capture"


@pytest.mark.parametrize(("arguments", "expected"), MISTAKEN, ids=lambda value: str(value)[:50])
def test_a_mistaken_flag_or_value(kipwatch: Kipwatch, arguments: list[str], expected: str) -> None:
    """The line names the flag and what is valid."""
    ran = kipwatch(*arguments)
    assert expected in ran.error_line
    assert ran.output == ""


@pytest.mark.parametrize(("content", "expected"), CONFIGURATIONS, ids=lambda value: str(value)[:50])
def test_a_mistaken_configuration(kipwatch: Kipwatch, tmp_path: Path, content: bytes, expected: str) -> None:
    """The line names the file and the key."""
    path = tmp_path / "kipwatch.toml"
    path.write_bytes(content)
    line = kipwatch("run", "--config", path).error_line
    assert line.startswith(str(path))
    assert expected in line


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("bootstrap", ["kafka-1:9092", "other:1, kafka-1:9093"])
def test_the_query_does_not_read_where_the_feeder_of_its_configuration_watches(
    kipwatch: Kipwatch, tmp_path: Path, bootstrap: str
) -> None:
    """Unless it is told so: then Java is what is missing."""
    path = tmp_path / "kipwatch.toml"
    path.write_text(f'bootstrap = "{bootstrap}"\nports = [9092, 9093]')
    refused = kipwatch("run", "--config", path).error_line
    assert f"reads at kafka-1:{bootstrap[-4:]}, and the feeder of this configuration watches port" in refused
    assert "[[exclude]]" in refused and "allow_watched_bootstrap" in refused
    for told in (["--allow-watched-bootstrap", "true"], ["--bootstrap", "kafka-1:9094"]):
        assert kipwatch("run", "--config", path, *told).error_line.startswith("no Java 17+")


def test_a_rule_that_does_not_exist(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """The line names the nearest rule that exists."""
    path = tmp_path / "kipwatch.toml"
    path.write_text("disable = ['wire/unknown-apis']")
    expected = "disable: there is no rule 'wire/unknown-apis'; did you mean wire/unknown-api?"
    assert kipwatch("run", "--config", path).error_line == expected


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_command_that_needs_java_says_what_to_install(kipwatch: Kipwatch, command: str) -> None:
    """The error comes before Spark or a broker is started, and says what to install."""
    line = kipwatch(command).error_line
    assert line.startswith("no Java 17+")
    assert "install openjdk-17-jre-headless" in line


def test_the_demo_accepts_no_other_kafka_than_its_own(kipwatch: Kipwatch, tmp_path: Path) -> None:
    path = tmp_path / "kipwatch.toml"
    path.write_text('[kafka]\n"security.protocol" = "ssl"')
    assert "remove [kafka] from the configuration" in kipwatch("demo", "--config", path).error_line


@pytest.mark.usefixtures("without_java")
def test_an_expired_suppression_is_warned_of_before_the_query_starts(
    kipwatch: Kipwatch, tmp_path: Path
) -> None:
    path = tmp_path / "kipwatch.toml"
    path.write_text('[[suppress]]\nrule = "wire/unknown-api"\nreason = "old"\nuntil = 2001-01-01')
    warnings = kipwatch("run", "--config", path).errors.splitlines()
    assert warnings[0].endswith("wire/unknown-api (old) expired on 2001-01-01")


@pytest.mark.parametrize("address", ["9107", "127.0.0.1", "127.0.0.1:", ":9107", "127.0.0.1:²", "h:65536"])
def test_a_metrics_address_that_is_not_host_and_port(
    kipwatch: Kipwatch, captures: Path, address: str
) -> None:
    ran = kipwatch("feed", captures / "clean.pcap", "--feeder-metrics-address", address)
    assert f"{address!r} is not host:port" in ran.error_line


@pytest.mark.slow
def test_a_metrics_port_in_use_stops_the_feeder_before_it_needs_kafka(
    captures: Path, port_in_use: int
) -> None:
    """Nobody listens at the bootstrap address: an earlier connection to it would be the error."""
    address = f"127.0.0.1:{port_in_use}"
    ran = run_process(
        "feed", captures / "clean.pcap", "--feeder-metrics-address", address, "--bootstrap", "127.0.0.1:1"
    )
    assert f"cannot serve metrics on {address}: the port is in use" in ran.error_line
    assert "--feeder-metrics-address" in ran.error_line


@pytest.mark.jvm
def test_a_metrics_port_in_use_stops_the_query_before_it_needs_kafka_or_spark(port_in_use: int) -> None:
    address = f"127.0.0.1:{port_in_use}"
    ran = run_process("run", "--metrics-address", address, "--bootstrap", "127.0.0.1:1")
    assert f"cannot serve metrics on {address}: the port is in use" in ran.error_line


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["check", "missing.pcap"], ["feed", "missing.pcap"], ["run", "--buckets", "x"]],
)
def test_a_real_process_prints_one_line_too(arguments: list[str]) -> None:
    """No other output than that of `main` is printed."""
    ran = run_process(*arguments)
    assert ran.error_line
    assert ran.output == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    assert f"usage: kipwatch {command}" in capsys.readouterr().out


def test_the_overview_lists_every_command(kipwatch: Kipwatch) -> None:
    """--help succeeds; no command at all is misuse."""
    requested, missing = kipwatch("--help"), kipwatch()
    assert (requested.status, missing.status) == (0, 2)
    assert requested.output == missing.output
    for command, purpose in COMMANDS.items():
        assert f"  {command} " in requested.output and purpose in " ".join(requested.output.split())
