"""`kipwatch owners check`: clients by owner, and those without one; `check` and `report` with owners."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.captures import planted, real_clients
from tests.streaming.commands.ran import Kipwatch

OWNERS = """
[[owner]]
name = "payments"
client_id = "java-[pc]*"

[[owner]]
name = "edge"
client_software_name = "kipwatch-demo"
client = "127.0.0.0/8"
"""


@pytest.fixture
def owners(tmp_path: Path) -> Path:
    path = tmp_path / "owners.toml"
    path.write_text(OWNERS)
    return path


def test_clients_are_shown_by_owner_and_last_those_of_nobody(kipwatch: Kipwatch, owners: Path) -> None:
    ran = kipwatch("owners", "check", owners, real_clients.CAPTURE)
    assert (ran.status, ran.errors) == (0, "")
    of_payments, of_nobody = ran.output.split("nobody\n")
    assert of_payments.startswith("payments\n")
    assert of_payments.count('client ID "java-') == 3
    assert "java" not in of_nobody and "librdkafka-admin" in of_nobody
    assert ran.output.endswith("3 of 7 clients with an owner\n")


def test_a_file_with_a_mistake_is_refused_in_one_line(kipwatch: Kipwatch, owners: Path) -> None:
    owners.write_text('[[owner]]\nname = "a"\nclient = "10.0.0.1/8"\n')
    ran = kipwatch("owners", "check", owners, real_clients.CAPTURE)
    assert ran.status == 2
    assert ran.errors.startswith(f"kipwatch: {owners}:1: ") and ran.errors.count("\n") == 1


def test_an_action_is_needed(kipwatch: Kipwatch) -> None:
    assert kipwatch("owners").status == 2


def test_findings_name_the_owner_and_null_if_there_is_none(kipwatch: Kipwatch, owners: Path) -> None:
    ran = kipwatch("check", "--jsonl", "--owners", owners, planted.CAPTURE)
    found = [json.loads(line) for line in ran.output.splitlines()]
    software = {(finding["client_software_name"], finding["owner"]) for finding in found}
    assert software == {("kipwatch-demo", "edge"), ("kipwatch demo!", None), (None, None)}
    plain = kipwatch("check", "--jsonl", planted.CAPTURE).output
    assert '"owner"' not in plain
    assert [{**finding, "owner": ""} for finding in found] == [
        {**json.loads(line), "owner": ""} for line in plain.splitlines()
    ]


def test_the_report_lists_the_owners_of_a_software(kipwatch: Kipwatch, owners: Path) -> None:
    assert "  owners: payments\n" in kipwatch("report", "--owners", owners, real_clients.CAPTURE).output
    assert "owners:" not in kipwatch("report", real_clients.CAPTURE).output


def test_markup_in_a_name_is_shown_and_does_nothing(kipwatch: Kipwatch, owners: Path, tmp_path: Path) -> None:
    owners.write_text('[[owner]]\nname = "[red]<b>payments"\nclient_software_name = "kipwatch-demo"\n')
    page = tmp_path / "page.html"
    assert "\n[red]<b>payments\n" in "\n" + kipwatch("owners", "check", owners, planted.CAPTURE).output
    kipwatch("report", "--html", page, "--owners", owners, planted.CAPTURE)
    assert "[red]&lt;b&gt;payments" in page.read_text() and "<b>payments" not in page.read_text()
