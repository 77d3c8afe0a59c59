"""The configuration: defaults, a TOML file, flags of the same names that override it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from streaming.settings.configuration import (
    MOST_MEBIBYTES,
    Configuration,
    Listener,
    add_flags,
    configure,
)
from streaming.user_error import UserError

TABLES = {"topics", "metrics_tls", "exclude", "listener", "disable", "levels", "suppress"}
FLAGS = [name for name in Configuration.__struct_fields__ if name not in TABLES]


def given_flags(*arguments: str) -> Configuration:
    parser = argparse.ArgumentParser()
    add_flags(parser, FLAGS)
    return configure(parser.parse_args(arguments))


def written(folder: Path, text: str) -> str:
    path = folder / "kipwatch.toml"
    path.write_text(text)
    return str(path)


def test_nothing_given_is_the_defaults() -> None:
    assert given_flags() == Configuration()


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    path = written(
        tmp_path, 'cluster = "orders"\nports = [9092, 9093]\n[[listener]]\naddress = "10.0.0.1:9092"'
    )
    assert given_flags("--config", path) == Configuration(
        cluster="orders", ports=[9092, 9093], listener=[Listener("10.0.0.1:9092")]
    )


def test_a_flag_overrides_the_file(tmp_path: Path) -> None:
    """What neither names has its default; listeners are those of the file."""
    text = 'cluster = "orders"\nbuckets = 8\nports = [1]\n[[listener]]\naddress = "h:1"\nname = "WATCHED"'
    given = given_flags("--config", written(tmp_path, text), "--buckets", "16", "--ports", "9092, 9093")
    assert (given.cluster, given.buckets, given.ports) == ("orders", 16, [9092, 9093])
    assert given.listener == [Listener("h:1", "WATCHED")]
    assert given.trigger_seconds == Configuration().trigger_seconds


def test_every_setting_but_the_tables_has_a_flag_with_its_default_in_the_help() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser, FLAGS)
    text = " ".join(parser.format_help().split())
    for name in FLAGS:
        assert f"--{name.replace('_', '-')} VALUE" in text
    assert "(default: 127.0.0.1:9092)" in text and "(default: 64)" in text


@pytest.mark.parametrize("name", ["buckets", "shuffle_partitions", "trigger_seconds"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "", "many"])
def test_a_count_below_one_or_no_number_is_refused(name: str, value: str) -> None:
    with pytest.raises(UserError, match=rf"^--[a-z-]+: {name} is "):
        given_flags(f"--{name.replace('_', '-')}={value}")


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("ring_mebibytes", MOST_MEBIBYTES),
        ("queue_mebibytes", MOST_MEBIBYTES),
        ("max_request_bytes", (1 << 31) - 1),
    ],
)
def test_sizes_are_bounded(name: str, largest: int) -> None:
    flag = f"--{name.replace('_', '-')}"
    assert getattr(given_flags(flag, str(largest)), name) == largest
    with pytest.raises(UserError, match=rf"{name} is .* to {largest}$"):
        given_flags(flag, str(largest + 1))


@pytest.mark.parametrize("name", ["cluster", "feeder"])
def test_names_are_bounded(name: str) -> None:
    """The limit counts bytes, not characters."""
    assert getattr(given_flags(f"--{name}", "é" * 12), name) == "é" * 12
    with pytest.raises(UserError, match=rf"--{name}: .* at most 24 bytes are allowed"):
        given_flags(f"--{name}", "é" * 12 + "x")


@pytest.mark.parametrize(
    ("text", "interfaces", "ports"),
    [
        ('interface = "lo"\nports = 9093', ["lo"], [9093]),
        ('interface = "lo, eth0"\nports = "9092,9093"', ["lo", "eth0"], [9092, 9093]),
        ('interface = ["lo", "eth0"]\nports = [9092]', ["lo", "eth0"], [9092]),
    ],
)
def test_one_value_is_taken_where_a_list_is_meant(
    tmp_path: Path, text: str, interfaces: list[str], ports: list[int]
) -> None:
    given = given_flags("--config", written(tmp_path, text))
    assert (given.interface, given.ports) == (interfaces, ports)
