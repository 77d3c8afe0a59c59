"""`kipwatch probe`: the table, JSON, JUnit, the saved capture and the exit status."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

from streaming.broker.ports import free_ports
from streaming.probe.duties import DUTIES
from streaming.settings.address import address_text
from tests.streaming.commands.ran import Kipwatch
from tests.streaming.probe.faults import FAULTS
from tests.streaming.probe.model_broker import ModelBroker

FAULT = next(fault for fault in FAULTS if fault.rule == "kip511/malformed-name-accepted")


def test_a_broker_that_conforms(kipwatch: Kipwatch, tmp_path: Path) -> None:
    with ModelBroker() as broker:
        ran = kipwatch("probe", address_text(*broker.address), "--writes", "--save", tmp_path / "probe.pcap")
    assert (ran.status, ran.errors) == (0, "")
    assert ran.output.count("\nconforms") + ran.output.startswith("conforms") == len(DUTIES)
    assert f"{len(DUTIES)} duties: {len(DUTIES)} conforms; " in ran.output


def test_a_broker_that_violates_a_duty(kipwatch: Kipwatch, tmp_path: Path) -> None:
    """The saved capture is judged as the probe judged it."""
    save, junit = tmp_path / "probe.pcap", tmp_path / "probe.xml"
    with ModelBroker(FAULT.newest, FAULT.make()) as broker:
        address = address_text(*broker.address)
        ran = kipwatch("probe", address, "--json", "--junit", junit, "--save", save)
    assert ran.status == 1
    report = json.loads(ran.output)
    broken = [duty for duty in report["duties"] if duty["state"] == "violates"]
    assert [duty["duty"] for duty in broken] == [FAULT.duty, "half-identified"]
    failed = ET.fromstring(junit.read_bytes()).findall(".//testcase[failure]")
    assert [case.get("name") for case in failed] == [FAULT.duty, "half-identified"]
    checked = json.loads(kipwatch("check", save, "--json", "--ports", broker.address[1]).output)
    about = {finding["rule"] for finding in checked["findings"] if finding["role"] == "broker"}
    assert about == {FAULT.rule, "kip1242/half-identified-accepted"}
    assert save.stat().st_mode & 0o777 == 0o600


def test_findings_of_a_level_that_may_pass(kipwatch: Kipwatch, tmp_path: Path) -> None:
    with ModelBroker(FAULT.newest, FAULT.make()) as broker:
        address = address_text(*broker.address)
        ran = kipwatch("probe", address, "--fail-on", "never", "--save", tmp_path / "probe.pcap")
    assert ran.status == 0


def test_suppressed_findings_do_not_fail(kipwatch: Kipwatch, tmp_path: Path) -> None:
    config, save = tmp_path / "kipwatch.toml", tmp_path / "probe.pcap"
    for rules, status in (([FAULT.rule], 1), ([FAULT.rule, "kip1242/half-identified-accepted"], 0)):
        suppressed = "[[suppress]]\nrule = '{}'\nreason = 'known'\nuntil = 2999-01-01\n"
        config.write_text("".join(map(suppressed.format, rules)))
        with ModelBroker(FAULT.newest, FAULT.make()) as broker:
            ran = kipwatch("probe", address_text(*broker.address), "--config", config, "--save", save)
        assert ran.status == status, ran.output


def test_a_broker_that_cannot_be_reached(kipwatch: Kipwatch, tmp_path: Path) -> None:
    [port] = free_ports(1)
    ran = kipwatch("probe", f"127.0.0.1:{port}", "--save", tmp_path / "probe.pcap")
    assert "could not be reached: Connection refused" in ran.error_line


def test_security_that_the_probe_lacks(kipwatch: Kipwatch, tmp_path: Path) -> None:
    configuration = tmp_path / "kipwatch.toml"
    configuration.write_text('[kafka]\n"security.protocol" = "sasl_ssl"\n"sasl.mechanism" = "GSSAPI"\n')
    ran = kipwatch("probe", "127.0.0.1:1", "--config", configuration, "--save", tmp_path / "probe.pcap")
    assert ran.error_line.startswith("kafka.sasl.mechanism GSSAPI is not one of PLAIN, SCRAM-SHA-256")
