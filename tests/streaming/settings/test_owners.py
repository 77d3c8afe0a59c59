"""Owners: which entry of a file decides, what it refuses, and what it costs."""

from __future__ import annotations

import fnmatch
import pickle
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.terms import ClientNames
from streaming.settings.owners import Owner, Owners, owners_of, read_owners
from streaming.user_error import UserError

FILE = """
[[owner]]
name = "search"
client_id = "search-*"
client = "10.1.0.0/16"

[[owner]]
name = "payments"
client_id = "pay?"

[[owner]]
name = "platform"
client_software_name = "librdkafka"

[[owner]]
name = "edge"
client = "fd00::/8"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "owners.toml"
    file.write_text(text)
    return file


def owners(folder: Path, text: str = FILE, pseudonyms: Pseudonyms | None = None) -> Owners:
    return read_owners(written(folder, text), pseudonyms)


@pytest.mark.parametrize(
    ("host", "client_id", "software", "owner"),
    [
        ("10.1.2.3", "search-7", None, "search"),
        ("10.2.2.3", "search-7", None, None),
        ("10.2.2.3", "search-7", "librdkafka", "platform"),
        ("10.1.2.3", "pay1", "librdkafka", "payments"),
        ("10.1.2.3", "pay12", "librdkafka", "platform"),
        ("10.1.2.3", "PAY1", None, None),
        ("10.1.2.3", None, None, None),
        ("[fd00::7]", None, None, "edge"),
        ("[fe80::7]", None, None, None),
    ],
)
def test_the_first_entry_whose_keys_all_match_decides(
    tmp_path: Path, host: str, client_id: str | None, software: str | None, owner: str | None
) -> None:
    assert owners(tmp_path).of(ClientNames(host, client_id, software)) == owner


@pytest.mark.parametrize("key", ["client_id", "client_software_name", "principal"])
@pytest.mark.parametrize("entry", ["svc-billing", "svc-bill?ng", "svc-[b]illing", "svc-bil*g"])
def test_no_look_alike_of_a_client_is_its_owners(key: str, entry: str) -> None:
    """Other case, letters of other alphabets or in parts, blanks, control characters, patterns as names."""
    place = ["client_id", "client_software_name", "principal"].index(key)
    found = owners_of([Owner("billing", **{key: entry})])

    def owner(name: str) -> str | None:
        return found.of(ClientNames("10.0.0.1", *(name if number == place else None for number in range(3))))

    assert owner("svc-billing") == "billing"
    for name in (
        *("svc-Billing", "SVC-BILLING", "svc-billing ", " svc-billing", "svc-billing.", "svc_billing", ""),
        *("svc-b\N{CYRILLIC SMALL LETTER BYELORUSSIAN-UKRAINIAN I}lling\N{CYRILLIC SMALL LETTER GHE}",),
        *("svc\N{HYPHEN}billing", "svc-billi\N{LATIN SMALL LETTER N}g\N{COMBINING DOT BELOW}"),
        *("svc-billing\N{ZERO WIDTH SPACE}", "\N{FULLWIDTH LATIN SMALL LETTER S}vc-billing"),
        *("svc-billing\n", "svc-billing\0", "\nsvc-billing", "svc-billing\nsvc", "svc-billing\x1b[2J"),
        *("svc-*", "svc-[!b]illing", "*", "svc-billing*", "sv[c]-billing"),
    ):
        assert owner(name) is None, name


HOSTS = ["10.1.0.1", "10.1.0.2", "10.2.0.1", "[fd00::1]", "[fd00::2]"]
NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "10.1.0.1", "fd00::/8", "fd00::1", "0.0.0.0/0", "::/0"]
GLOBS = ["", "a", "ab", "a*", "*", "*b", "a?", "[ab]*", "ab*c", "a[!b]"]
TEXTS = ["", "a", "b", "ab", "abc", "acb", "ac"]
entries = st.builds(
    Owner,
    name=st.sampled_from(["one", "two", "three"]),
    client_id=st.none() | st.sampled_from(GLOBS),
    client_software_name=st.none() | st.sampled_from(GLOBS),
    client=st.sampled_from(NETWORKS),
    principal=st.none() | st.sampled_from(GLOBS),
    workload=st.none() | st.sampled_from(GLOBS),
)
shown = st.tuples(st.sampled_from(HOSTS), *[st.none() | st.sampled_from(TEXTS)] * 4)


def covers(entry: Owner, host: str, *shown: str | None) -> bool:
    """What an entry means, compared one by one."""
    globs = entry.client_id, entry.client_software_name, entry.principal, entry.workload
    texts = zip(globs, shown, strict=True)
    return ip_address(host.strip("[]")) in ip_network(str(entry.client)) and all(
        glob is None or (text is not None and fnmatch.fnmatchcase(text, glob)) for glob, text in texts
    )


@given(st.lists(entries, max_size=12), shown)
def test_the_index_finds_what_a_comparison_of_all_entries_finds(
    listed: list[Owner], client: tuple[str, str | None, str | None, str | None, str | None]
) -> None:
    expected = next((entry.name for entry in listed if covers(entry, *client)), None)
    assert owners_of(listed).of(ClientNames(*client)) == expected


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            '[[owner]]\nname = "a"\nclient_id = "x"\n[[owner]]\nclient = "x"',
            r":4: owner\[1\] lacks the setting name",
        ),
        ("", r": it lacks the setting owner$"),
        ('[[owner]]\nname = "a"\n', r":1: owner\[0\] is .*; an owner needs a key"),
        (
            '[[owner]]\nname = "a"\nclient = "10.0.0.1/8"',
            r":1: .*host bits set; write an address",
        ),
        (
            '[[owner]]\nname = "a"\nclient_idd = "x"',
            ":3: there is no setting client_idd; did you",
        ),
        ('[[owner]]\nname = "unknown"\nclient_id = "x"', "no owner can be called 'unknown'"),
        ('[[owner]]\nname = ""\nclient_id = "x"', ":2: "),
        ("owner = 1", ":1: owner is 1; allowed is a list"),
        ("[[owner", " is not TOML: "),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(UserError, match=mistake) as raised:
        owners(tmp_path, text)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read the owners .*: No such file"):
        read_owners(tmp_path / "owners.toml")


def test_with_pseudonyms_whole_names_are_known_again_and_patterns_refused(tmp_path: Path) -> None:
    pseudonyms = Pseudonyms(b"a key of sixteen bytes")
    text = '[[owner]]\nname = "a"\nclient_id = "app"\n[[owner]]\nname = "b"\nclient = "fd00::7"\n'
    found = owners(tmp_path, text, pseudonyms)
    assert found.of(ClientNames("h-00", pseudonyms.text("app"), None)) == "a"
    assert found.of(ClientNames(pseudonyms.host("[fd00::7]"), None, None)) == "b"
    assert found.of(ClientNames("h-00", "app", None)) is None
    with pytest.raises(UserError, match=r'owners\.toml: with identities = "keyed-hash" client_id'):
        owners(tmp_path, FILE, pseudonyms)
    with pytest.raises(UserError, match=r'owners\.toml: with identities = "keyed-hash" no workload'):
        owners(tmp_path, '[[owner]]\nname = "a"\nworkload = "payments/checkout"\n', pseudonyms)


def test_a_worker_unpacks_owners_once_and_knows_a_change(tmp_path: Path) -> None:
    """Code is unpickled for each task; ten thousand entries would take longer than judging."""
    before = owners(tmp_path)
    again = pickle.loads(pickle.dumps(before))
    assert again is pickle.loads(pickle.dumps(before)) and again == before
    assert again.of(ClientNames("10.1.2.3", "search-7", None)) == "search"
    assert owners(tmp_path, FILE.replace("search-", "find-")) != before


def test_a_name_that_looks_like_another_owners_changes_nothing(tmp_path: Path) -> None:
    """A client may call itself anything: only its address it cannot choose."""
    found = owners(tmp_path)
    assert found.of(ClientNames("192.0.2.1", "search-7", None)) is None
    assert found.of(ClientNames("10.1.2.3", "search-\N{CYRILLIC SMALL LETTER A}<b>\n", None)) == "search"
    assert found.of(ClientNames("10.1.2.3", "s\N{CYRILLIC SMALL LETTER IE}arch-7", None)) is None


def test_ten_thousand_entries_are_not_compared_one_by_one() -> None:
    """A client is compared with the few entries that can match: each comparison calls several functions."""
    of_names = [Owner(f"team-{number}", client_id=f"service-{number}-*") for number in range(5_000)]
    of_networks = [
        Owner(f"team-{number}", client=f"10.{number // 250}.{number % 250}.0/24") for number in range(5_000)
    ]
    found = owners_of([*of_names, *of_networks])
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    for number in range(0, 5_000, 7):
        names = ClientNames(f"10.1.{number % 250}.1", f"service-{number}-x", "java")
        calls = 0
        sys.setprofile(count)
        try:
            owner = found.of(names)
        finally:
            sys.setprofile(None)
        assert (owner, calls < 100) == (f"team-{number}", True)
