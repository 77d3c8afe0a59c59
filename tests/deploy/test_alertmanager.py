"""Who is told what, when, and how it reads: the committed configuration in a real Alertmanager."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streaming.observe.server import Server
from tests.dashboards.rule_file import ALERTS, NAMES
from tests.deploy.alertmanager import CONFIGURATION, Told, alertmanager, send, until

RECEIVERS = {"critical": "mail,chat", "warning": "chat", "info": "mail", "none": "watchdog"}
SILENCE = 5.0
"""Seconds in which an Alertmanager that waits for one second would have spoken."""


def amtool(*arguments: str | Path) -> str:
    """Run amtool and fail with what it says."""
    if shutil.which("amtool") is None:
        pytest.fail(
            "amtool is missing: apt-get install --no-install-recommends prometheus-alertmanager, "
            "or `make test` as root"
        )
    told = subprocess.run(
        ["amtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def alert(name: str, description: str = "", **labels: str) -> dict[str, Any]:
    """An alert of the rule file, with labels that its expression would give it."""
    definition = next(found for found in ALERTS if found["alert"] == name)
    annotations = definition["annotations"] | {
        "description": description or f"{name} of a test",
        "runbook_url": f"docs/runbook.md#{name.lower()}",
    }
    return {"labels": {"alertname": name, **definition["labels"], **labels}, "annotations": annotations}


def violation(name: str = "librdkafka", rule: str = "kip1313/instance-id-zero") -> dict[str, Any]:
    return alert("KafkaClientProtocolViolation", job="kipwatch", rule=rule, client_software_name=name)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Server, Told]]:
    with alertmanager(tmp_path) as started:
        yield started


def test_alertmanager_accepts_its_configuration_and_templates() -> None:
    """Every route leads to a receiver that exists, every template can be read."""
    assert "1 templates" in amtool("check-config", CONFIGURATION)


@pytest.mark.parametrize("definition", ALERTS, ids=[str(found["alert"]) for found in ALERTS])
def test_every_alert_is_routed_by_its_severity(definition: dict[str, Any]) -> None:
    labels = {"alertname": definition["alert"]} | definition["labels"]
    matchers = [f"{name}={value}" for name, value in labels.items()]
    receivers = RECEIVERS[labels["severity"]]
    amtool(
        "config",
        "routes",
        "test",
        f"--config.file={CONFIGURATION}",
        f"--verify.receivers={receivers}",
        *matchers,
    )


def test_an_alert_of_somebody_else_is_told_in_chat() -> None:
    """The routes are taken into a configuration that has alerts without our labels."""
    amtool(
        "config",
        "routes",
        "test",
        f"--config.file={CONFIGURATION}",
        "--verify.receivers=chat",
        "alertname=Other",
    )


def test_the_labels_that_inhibitions_go_by_are_on_the_alerts() -> None:
    """A blind monitor is one of four alerts, and what it silences exists."""
    blind = {found["alert"] for found in ALERTS if found["labels"].get("blind") == "true"}
    assert blind == {
        "KipwatchApplicationAbsent",
        "KipwatchStalled",
        "KipwatchFirstBatchMissing",
        "KipwatchNoFeeder",
    }
    silenced = {found["alert"] for found in ALERTS if found["labels"]["watches"] == "kafka"}
    assert silenced == {name for name in NAMES if name.startswith("Kafka")}


def test_a_violation_is_told_in_chat_and_so_is_its_end(running: tuple[Server, Told]) -> None:
    server, told = running
    send(server, violation())
    (message,) = until(lambda: told.chat)
    assert told.titles() == [
        "[1 firing] kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol."
    ]
    text = message["attachments"][0]["text"]
    assert text.startswith("KafkaClientProtocolViolation of a test\nWhat to do: docs/runbook.md#")
    assert "\nDashboard: http://127.0.0.1:3000/d/kipwatch-rule?" in text
    assert message["attachments"][0]["color"] == "warning"
    send(server, violation(), over=True)
    over = until(lambda: told.chat[1:])[0]["attachments"][0]
    assert over["title"] == "[over] kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol."
    assert over["text"].startswith("Over since ")
    assert over["color"] == "good"
    until(lambda: [hook["status"] for hook in told.hooks] == ["firing", "resolved"])


def test_what_is_critical_is_mailed_as_well_as_told(running: tuple[Server, Told]) -> None:
    server, told = running
    send(server, alert("KipwatchStalled", "The latest batch was finished 5m 0s ago.", job="kipwatch"))
    (mail,) = until(lambda: told.mail)
    assert mail["Subject"] == "[1 firing] kipwatch judges nothing: no violation would be seen."
    plain, html = (part.get_content().replace("\r\n", "\n") for part in mail.iter_parts())
    assert plain.startswith("The latest batch was finished 5m 0s ago.\n\n  since       ")
    assert "\n  what to do  docs/runbook.md#kipwatchstalled\n" in plain
    assert '<a href="docs/runbook.md#kipwatchstalled">What to do</a>' in html
    assert until(told.titles) == [mail["Subject"]]
    assert told.chat[0]["attachments"][0]["color"] == "danger"


def test_a_rule_and_a_client_software_are_one_message(running: tuple[Server, Told]) -> None:
    """Two clients that break one rule are two messages, a rule that two clients break is not one."""
    server, told = running
    send(server, violation(), violation("kafka-python"), violation(rule="kip511/software-name-malformed"))
    until(lambda: len(told.hooks) == 3)
    groups = {
        (hook["groupLabels"]["rule"], hook["groupLabels"]["client_software_name"]) for hook in told.hooks
    }
    assert len(groups) == 3


def test_a_blind_monitor_silences_violations_and_their_end(running: tuple[Server, Told]) -> None:
    """That a violation is over means nothing when nothing is judged."""
    server, told = running
    send(server, violation())
    until(told.titles)
    send(server, alert("KipwatchStalled", job="kipwatch"))
    until(lambda: len(told.titles()) == 2)
    send(server, violation(), over=True)
    send(server, violation("kafka-python"), alert("KipwatchLagGrowing", job="kipwatch"))
    time.sleep(SILENCE)
    assert len(told.titles()) == 2
    send(server, alert("KipwatchStalled", job="kipwatch"), over=True)
    titles = until(lambda: told.titles()[2:] if len(told.titles()) >= 5 else [])
    assert sorted(titles) == [
        "[1 firing] Frames come faster than they are judged.",
        "[1 firing] kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol.",
        "[over] kipwatch judges nothing: no violation would be seen.",
    ]


def test_a_blind_monitor_silences_no_other_one_and_no_feeder_at_all_silences_all(
    running: tuple[Server, Told],
) -> None:
    """Two installations may share one Prometheus and one Alertmanager."""
    server, told = running
    send(server, alert("KipwatchStalled", job="another"), violation())
    until(lambda: len(told.titles()) == 2)
    send(server, alert("KipwatchNoFeeder"))
    until(lambda: len(told.titles()) == 3)
    send(server, violation("kafka-python"))
    time.sleep(SILENCE)
    assert len(told.titles()) == 3


def test_a_client_cannot_speak_to_the_chat_by_its_name(running: tuple[Server, Told]) -> None:
    """The chat would take `<!channel>` for a mention of everybody."""
    server, told = running
    hostile = "<!channel> & co"
    send(
        server,
        alert("KafkaClientSoftwareNewlyViolating", f"{hostile} broke rules", client_software_name=hostile),
    )
    mail = until(lambda: told.mail)[0]
    send(
        server, alert("KafkaClientProtocolViolation", f"{hostile} broke rules", client_software_name=hostile)
    )
    (message,) = until(lambda: told.chat)
    assert "<" not in message["attachments"][0]["title"] + message["attachments"][0]["text"]
    assert "&lt;!channel&gt; &amp; co broke rules" in message["attachments"][0]["text"]
    _, html = (part.get_content() for part in mail.iter_parts())
    assert "<!channel>" not in html
