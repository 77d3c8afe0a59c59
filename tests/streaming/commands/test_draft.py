"""`kipwatch draft` and `kipwatch schemas lint`: from a folder of messages to a judged capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.captures import real_clients
from tests.streaming.commands.ran import Kipwatch

DRAFTS = Path(__file__).parents[2] / "decoders" / "schema" / "drafts"
READ_BY_RULES = {
    "messages": [
        "ApiVersions",
        "ConsumerGroupHeartbeat",
        "OffsetCommit",
        "ShareFetch",
        "Produce",
        "Metadata",
    ],
    "removed": ["ApiKeys", "ClientSoftwareName", "MemberId", "GroupId", "Acks", "Brokers", "ErrorCode"],
}


@pytest.mark.parametrize("draft", ["kip-511", "kip-848", "kip-1082", "kip-1313"])
def test_its_example_frames_are_a_capture_that_conforms(
    kipwatch: Kipwatch, tmp_path: Path, draft: str
) -> None:
    saved = tmp_path / "examples.pcap"
    ran = kipwatch("draft", DRAFTS / draft, "--save", saved, "--json")
    report = json.loads(ran.output)
    checked = kipwatch("check", "--schemas", DRAFTS / draft, "--jsonl", saved)
    assert (ran.status, checked.status) == (0, 0), checked.output
    decoded = kipwatch("decode", "--schemas", DRAFTS / draft, "--jsonl", "--kind", "request", saved)
    frames = [json.loads(line) for line in decoded.output.splitlines()]
    assert [(frame["api"], frame["api_version"]) for frame in frames] == [
        (each["api"], each["api_version"]) for each in report["examples"]
    ]
    assert [frame.get("failure") for frame in frames] == [None] * len(frames)


def test_a_draft_shows_what_changes_and_whom_it_touches(kipwatch: Kipwatch) -> None:
    ran = kipwatch("draft", DRAFTS / "kip-1082", real_clients.CAPTURE)
    lines = ran.output.splitlines()
    assert "    versions: 0 → 0-1" in lines
    assert "ConsumerGroupHeartbeat v1" in lines
    touched = [line for line in lines if "librdkafka-consumer" in line]
    assert touched and all("ConsumerGroupHeartbeat" in line for line in touched)
    # The draft changes one API, so requests of others touch nobody.
    assert not any("ApiVersions" in line or "Produce" in line for line in lines)


def test_a_draft_with_a_fault_is_named_at_its_line(kipwatch: Kipwatch) -> None:
    said = "ListGroupsRequest.json:6: field States: a field of type []string has no fields of its own\n"
    for command in (["schemas", "lint"], ["draft"]):
        ran = kipwatch(*command, DRAFTS / "kip-518-early")
        assert (ran.status, ran.output, ran.errors) == (1, said, "")
    assert kipwatch("schemas", "lint", DRAFTS / "kip-518").output == "nothing is wrong\n"


def test_what_is_no_draft_is_refused_in_one_line(kipwatch: Kipwatch, tmp_path: Path) -> None:
    for command in (["schemas", "lint"], ["draft"]):
        assert "holds neither message files" in kipwatch(*command, tmp_path).error_line
        assert "is no folder" in kipwatch(*command, tmp_path / "absent").error_line


def test_a_draft_may_take_away_what_rules_read(kipwatch: Kipwatch, tmp_path: Path) -> None:
    names = [f"{name}{kind}" for name in READ_BY_RULES["messages"] for kind in ("Request", "Response")]
    change = {"messages": names, "newVersion": True, "removed": READ_BY_RULES["removed"]}
    (tmp_path / "overlay.json").write_text(json.dumps({"changes": [change]}))
    saved = tmp_path / "examples.pcap"
    assert kipwatch("draft", tmp_path, "--save", saved).status == 0
    checked = kipwatch("check", "--schemas", tmp_path, "--jsonl", saved)
    assert (checked.status, checked.output) == (0, "")
