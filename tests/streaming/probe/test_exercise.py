"""What gives each rule something to judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from expectations.judging.terms import Terms
from expectations.report.coverage import coverage_of
from expectations.rules.base.rule import Role
from expectations.rules.catalogue import RULES, rule_named
from streaming.check.examination import examine
from streaming.commands.main import main
from streaming.probe.connection import OPEN, Login, Security, Target
from streaming.probe.duties import DUTIES, exercises, unexercised
from streaming.probe.probing import Probing
from streaming.record.provocations import PROVOCATIONS
from tests.brokers.page import ONLY_AT_FAULT
from tests.streaming.captures import conforming, write_capture, write_packets
from tests.streaming.probe.model_broker import SCHEMAS, ModelBroker

MEMBER, LIST = rule_named("kip1082/member-id-changed"), rule_named("kip35/range-inverted")


def test_each_rule_about_brokers_is_exercised_by_a_probe() -> None:
    assert [rule.id for rule in RULES if rule.role is Role.BROKER and not exercises(rule)] == []


def test_commands_are_named() -> None:
    assert exercises(MEMBER) == ["kipwatch record --provoke heartbeats-lost,members-fenced"]
    assert exercises(LIST) == ["kipwatch probe (orderly-list-of-versions)"]


def test_a_rule_that_decided_something_needs_nothing() -> None:
    told = list(unexercised(coverage_of({(LIST.id, "conforms"): 1, (MEMBER.id, "undecided"): 1})))
    assert len(told) == len(RULES) - 1
    assert [line for line in told if line.startswith(LIST.id)] == []
    assert f"{MEMBER.id} needs {MEMBER.needs}: {exercises(MEMBER)[0]}" in told


def told_by(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command prints, in one line."""
    main([str(argument) for argument in arguments])
    return " ".join(capsys.readouterr().out.split())


def test_check_tells_it_with_its_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = write_capture(tmp_path / "clean.pcap", conforming())
    assert "needs a" not in told_by(capsys, "check", capture)
    told = told_by(capsys, "check", "--coverage", capture)
    assert f"{MEMBER.id} needs {MEMBER.needs}" in told
    assert exercises(MEMBER)[0] in told


def test_a_rules_page_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    told = told_by(capsys, "rules", MEMBER.id)
    assert "What exercises it" in told
    assert exercises(MEMBER)[0] in told


@pytest.mark.slow
def test_probes_and_provocations_exercise_every_rule_but_two(tmp_path: Path) -> None:
    """The test of provocations shows that each exercises the rules that it names."""
    exercised = {rule for provocation in PROVOCATIONS for rule in provocation.rules}
    for security in (OPEN, Security(login=Login("PLAIN", "user", "secret"))):
        with ModelBroker() as broker:
            probing = Probing(Target(SCHEMAS, broker.address, security), Terms())
            probing.open()
            assert list(probing.run(DUTIES, writes=True))
        capture = write_packets(tmp_path / "probe.pcap", probing.packets)
        coverage = examine(capture, SCHEMAS, [broker.address[1]]).coverage
        exercised |= {row.rule for row in coverage if row.exercised}
    assert {rule.id for rule in RULES} - exercised == set(ONLY_AT_FAULT)
