"""`identities` and its key: mistakes are one line, and suppressions find whom they name."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from decoders.schema.registry import default_schemas
from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.finding import Suppressed
from streaming.check.examination import examine
from streaming.settings.configuration import Configuration, Suppression
from streaming.settings.decisions import Decisions
from streaming.settings.pseudonyms import pseudonyms_of
from streaming.user_error import UserError
from tests.streaming.captures import violating, write_capture

KEY = "a key of some thirty-two bytes !"
RULE = "kip1313/instance-id-changed"


@pytest.fixture(autouse=True)
def keys_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIPWATCH_KEY", KEY)
    monkeypatch.setenv("SHORT_KEY", "short")


def keyed(**what: str) -> Configuration:
    suppressions = [Suppression(RULE, "known", date(2999, 1, 1), **what)] if what else []
    return Configuration(identities="keyed-hash", identities_key="env:KIPWATCH_KEY", suppress=suppressions)


def test_by_default_identities_are_plain() -> None:
    assert pseudonyms_of(Configuration()) is None


def test_a_key_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    found = [
        pseudonyms_of(Configuration(identities="keyed-hash", identities_key=each))
        for each in ("env:KIPWATCH_KEY", f"file:{file}")
    ]
    assert [each and each.text("orders") for each in found] == [Pseudonyms(KEY.encode()).text("orders")] * 2


@pytest.mark.parametrize(
    ("identities", "key", "line"),
    [
        ("keyed-hash", "", 'keyed-hash needs a key; write "env:NAME" or "file:PATH"'),
        ("keyed-hash", KEY, 'keyed-hash needs a key; write "env:NAME" or "file:PATH"'),
        ("keyed-hash", "env:ABSENT", "the environment variable ABSENT is not set"),
        ("keyed-hash", "file:/absent", "cannot read /absent: No such file or directory"),
        ("keyed-hash", "env:SHORT_KEY", "the key has less than 16 bytes; `openssl rand -hex 32` makes one"),
        ("plain", "env:KIPWATCH_KEY", 'no effect without identities = "keyed-hash"'),
    ],
)
def test_an_unusable_key_is_one_line(identities: str, key: str, line: str) -> None:
    with pytest.raises(UserError) as refused:
        Decisions(Configuration(identities=identities, identities_key=key))  # type: ignore[arg-type]
    message = str(refused.value)
    assert message.startswith("identities_key") and line in message and KEY not in message


@pytest.mark.parametrize(
    "what",
    [{"client_id": "app"}, {"client": "10.0.0.1"}, {"client": "10.0.0.1:40000", "client_id": "app"}],
    ids=str,
)
def test_a_suppression_names_its_client_plainly(what: dict[str, str], tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "violating.pcap", violating())
    found = examine(capture, default_schemas(), terms=Decisions(keyed(**what)).terms).findings
    (finding,) = (each for each in found if each.rule == RULE)
    assert finding.suppressed == Suppressed("known", "2999-01-01")
    assert "10.0.0.1" not in finding.client and finding.client_id != "app"


@pytest.mark.parametrize("what", [{"client_id": "another"}, {"client": "10.0.0.9"}], ids=str)
def test_a_suppression_of_another_client_covers_nothing(what: dict[str, str], tmp_path: Path) -> None:
    capture = write_capture(tmp_path / "violating.pcap", violating())
    found = examine(capture, default_schemas(), terms=Decisions(keyed(**what)).terms).findings
    assert [each.suppressed for each in found if each.rule == RULE and each.suppressed] == []


@pytest.mark.parametrize(
    ("what", "pattern"),
    [({"client_id": "orders-*"}, "'orders-*'"), ({"client": "10.0.0.0/8"}, "'10.0.0.0/8'")],
)
def test_what_covers_several_clients_is_refused(what: dict[str, str], pattern: str) -> None:
    with pytest.raises(UserError, match="must name one client in full") as refused:
        Decisions(keyed(**what))
    assert pattern in str(refused.value)
