"""Who is notified of what, when, and in which words: the committed configuration in a real Alertmanager."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from expectations.rules.catalogue import RULES
from streaming.observe import Server
from tests.dashboards.rule_file import ALERTS, NAMES
from tests.deploy.alertmanager import CONFIGURATION, Notifications, alertmanager, send
from tests.waiting import until

VIOLATION = "KafkaClientProtocolViolation"
ZERO = next(rule for rule in RULES if rule.id == "kip1313/instance-id-zero")
RECEIVERS = {"critical": "mail,chat", "warning": "chat", "info": "mail", "none": "watchdog"}
SILENCE = 5.0
"""Seconds in which an Alertmanager that waits for one second would have notified."""


def amtool(*arguments: str | Path) -> str:
    """Run amtool; fail with its output."""
    if shutil.which("amtool") is None:
        pytest.fail(
            "amtool is missing: apt-get install --no-install-recommends prometheus-alertmanager, "
            "or `make test` as root"
        )
    done = subprocess.run(
        ["amtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alert(name: str, description: str = "", **labels: str) -> dict[str, Any]:
    """An alert of the rule file, with labels as of its expression."""
    definition = next(found for found in ALERTS if found["alert"] == name)
    annotations = definition["annotations"] | {
        "description": description or f"{name} of a test",
        "runbook_url": f"docs/runbook.md#{name.lower()}",
    }
    return {"labels": {"alertname": name, **definition["labels"], **labels}, "annotations": annotations}


def violation(
    name: str = "librdkafka", rule: str = "kip1313/instance-id-zero", **labels: str
) -> dict[str, Any]:
    made = alert(VIOLATION, job="kipwatch", rule=rule, client_software_name=name, **labels)
    example = f"http://127.0.0.1:9108/#findings-{rule.replace('/', '-')}"
    made["annotations"] |= {"versions": "2.10.0, 2.11.0", "connections": "42", "evidence_url": example}
    return made


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Server, Notifications]]:
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


def test_an_alert_without_our_labels_is_sent_to_chat() -> None:
    """The routes may be part of a configuration that has other alerts, too."""
    amtool(
        "config",
        "routes",
        "test",
        f"--config.file={CONFIGURATION}",
        "--verify.receivers=chat",
        "alertname=Other",
    )


def test_the_labels_of_the_inhibitions_are_on_the_alerts() -> None:
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


def test_a_violation_is_sent_to_chat_and_so_is_its_end(running: tuple[Server, Notifications]) -> None:
    server, sent = running
    send(server, violation())
    (message,) = until(lambda: sent.chat)
    assert sent.titles() == [
        "[1 firing] kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol."
    ]
    text = message["attachments"][0]["text"]
    assert text.startswith(
        "KafkaClientProtocolViolation of a test\nClient: librdkafka 2.10.0, 2.11.0\n"
        "Open connections of this software, offending or not: 42\nRule: "
    )
    assert "\nDashboard: http://127.0.0.1:3000/d/kipwatch-rule?" in text
    assert message["attachments"][0]["color"] == "warning"
    send(server, violation(), over=True)
    over = until(lambda: sent.chat[1:])[0]["attachments"][0]
    assert over["title"] == "[over] kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol."
    assert over["text"].startswith("Over since ")
    assert over["color"] == "good"
    until(lambda: [hook["status"] for hook in sent.hooks] == ["firing", "resolved"])


def test_a_critical_alert_is_sent_by_mail_and_to_chat(running: tuple[Server, Notifications]) -> None:
    server, sent = running
    send(server, alert("KipwatchStalled", "The latest batch was finished 5m 0s ago.", job="kipwatch"))
    (mail,) = until(lambda: sent.mail)
    assert mail["Subject"] == "[1 firing] kipwatch judges nothing: no violation would be seen."
    plain, html = (part.get_content().replace("\r\n", "\n") for part in mail.iter_parts())
    assert plain.startswith("The latest batch was finished 5m 0s ago.\n\n  since       ")
    assert "\n  what to do  docs/runbook.md#kipwatchstalled\n" in plain
    assert '<a href="docs/runbook.md#kipwatchstalled">What to do</a>' in html
    assert until(sent.titles) == [mail["Subject"]]
    assert sent.chat[0]["attachments"][0]["color"] == "danger"


def test_a_rule_and_a_client_software_are_one_message(running: tuple[Server, Notifications]) -> None:
    """Two clients that break one rule are two messages, a rule that two clients break is not one."""
    server, sent = running
    send(server, violation(), violation("kafka-python"), violation(rule="kip511/software-name-malformed"))
    until(lambda: len(sent.hooks) == 3)
    groups = {
        (hook["groupLabels"]["rule"], hook["groupLabels"]["client_software_name"]) for hook in sent.hooks
    }
    assert len(groups) == 3


def test_a_teams_violation_tells_it_all_by_mail_and_the_platform_hears_of_it_too(
    running: tuple[Server, Notifications],
) -> None:
    """Whose, where, which software, what is wrong in words, since when, examples, what to do."""
    server, sent = running
    send(server, violation(owner="payments", cluster="prod"))
    (mail,) = until(lambda: sent.mail)
    assert mail["To"] == "payments@localhost"
    title = "[1 firing] payments: kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol."
    assert mail["Subject"] == title
    assert until(sent.titles) == [title]
    plain, html = (part.get_content().replace("\r\n", "\n") for part in mail.iter_parts())
    facts = re.split(r"  since .*", plain)
    assert facts[0] == (
        "KafkaClientProtocolViolation of a test\n\n"
        "  owner       payments\n"
        "  cluster     prod\n"
        "  client      librdkafka 2.10.0, 2.11.0\n"
        "  connected   42 open connections of this software, offending or not\n"
        "  rule        kip1313/instance-id-zero\n"
        f"              {ZERO.summary}\n"
    )
    assert facts[1].startswith(
        "\n  what to do  docs/runbook.md#kafkaclientprotocolviolation\n"
        "  examples    http://127.0.0.1:9108/#findings-kip1313-instance-id-zero\n"
        "  dashboard   http://127.0.0.1:3000/d/kipwatch-rule?"
    )
    assert f"<td>kip1313/instance-id-zero<br>{ZERO.summary}</td>" in html
    assert (
        '<a href="http://127.0.0.1:9108/#findings-kip1313-instance-id-zero">examples with their frames</a>'
        in html
    )
    hooked = {hook["receiver"]: hook["commonLabels"]["owner"] for hook in sent.hooks}
    assert hooked.items() <= {"payments": "payments", "chat": "payments"}.items()


def test_clients_of_nobody_and_of_other_owners_are_the_platforms(
    running: tuple[Server, Notifications],
) -> None:
    """Two owners whose clients break one rule are two messages."""
    server, sent = running
    send(server, violation(owner="unknown"), violation(owner="search"))
    until(lambda: len(sent.titles()) == 2)
    assert sum("] search: kip" in title for title in sent.titles()) == 1
    assert not sent.mail


def test_markup_in_an_owners_name_does_nothing(running: tuple[Server, Notifications]) -> None:
    server, sent = running
    send(server, violation("<b>x", owner="<!channel>", cluster="<i>"))
    (message,) = until(lambda: sent.chat)
    assert "<" not in message["attachments"][0]["text"]
    assert "Owner: &lt;!channel&gt;\n" in message["attachments"][0]["text"]


@pytest.mark.slow
def test_a_blind_monitor_silences_violations_and_their_end(running: tuple[Server, Notifications]) -> None:
    """While nothing is judged, a resolved violation means nothing."""
    server, sent = running
    send(server, violation())
    until(sent.titles)
    send(server, alert("KipwatchStalled", job="kipwatch"))
    until(lambda: len(sent.titles()) == 2)
    send(server, violation(), over=True)
    send(server, violation("kafka-python"), alert("KipwatchLagGrowing", job="kipwatch"))
    time.sleep(SILENCE)
    assert len(sent.titles()) == 2
    send(server, alert("KipwatchStalled", job="kipwatch"), over=True)
    titles = until(lambda: sent.titles()[2:] if len(sent.titles()) >= 5 else [])
    assert sorted(titles) == [
        "[1 firing] Frames come faster than they are judged.",
        "[1 firing] kip1313/instance-id-zero: A Kafka client breaks a rule of the protocol.",
        "[over] kipwatch judges nothing: no violation would be seen.",
    ]


@pytest.mark.slow
def test_a_blind_monitor_silences_no_other_one_and_no_feeder_at_all_silences_all(
    running: tuple[Server, Notifications],
) -> None:
    """Two installations may share one Prometheus and one Alertmanager."""
    server, sent = running
    send(server, alert("KipwatchStalled", job="another"), violation())
    until(lambda: len(sent.titles()) == 2)
    send(server, alert("KipwatchNoFeeder"))
    until(lambda: len(sent.titles()) == 3)
    send(server, violation("kafka-python"))
    time.sleep(SILENCE)
    assert len(sent.titles()) == 3


def test_the_name_of_a_client_cannot_mention_people_in_chat(running: tuple[Server, Notifications]) -> None:
    """In chat `<!channel>` mentions everybody."""
    server, sent = running
    hostile = "<!channel> & co"
    send(
        server,
        alert("KafkaClientSoftwareNewlyViolating", f"{hostile} broke rules", client_software_name=hostile),
    )
    mail = until(lambda: sent.mail)[0]
    send(
        server, alert("KafkaClientProtocolViolation", f"{hostile} broke rules", client_software_name=hostile)
    )
    (message,) = until(lambda: sent.chat)
    assert "<" not in message["attachments"][0]["title"] + message["attachments"][0]["text"]
    assert "&lt;!channel&gt; &amp; co broke rules" in message["attachments"][0]["text"]
    _, html = (part.get_content() for part in mail.iter_parts())
    assert "<!channel>" not in html
