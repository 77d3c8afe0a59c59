"""The addresses of the demo: free ones, unless the user names others."""

from __future__ import annotations

import argparse
import contextlib
import socket
from pathlib import Path

from streaming.commands import demo
from streaming.settings.address import host_and_port
from streaming.settings.configuration import Configuration, configure


def addresses(*flags: str) -> tuple[str, str]:
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    parsed = parser.parse_args(flags)
    configuration = demo.with_free_ports(configure(parsed), parsed)
    return configuration.metrics_address, configuration.feeder_metrics_address


def test_the_demo_takes_free_ports_where_the_usual_ones_are_in_use() -> None:
    usual = {Configuration().metrics_address, Configuration().feeder_metrics_address}
    with contextlib.ExitStack() as stack:
        for address in usual:
            taken = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):  # somebody else has taken it
                taken.bind(host_and_port(address))
                taken.listen()
        chosen = addresses()
        assert len({*chosen} - usual) == 2
        for address in chosen:
            free = stack.enter_context(socket.socket())
            # As servers do: connections of earlier tests may be in TIME_WAIT there.
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(host_and_port(address))


def test_an_address_that_is_named_is_taken(tmp_path: Path) -> None:
    named = "127.0.0.1:9108"
    assert addresses("--metrics-address", named)[0] == named
    file = tmp_path / "kipwatch.toml"
    file.write_text('feeder_metrics_address = "127.0.0.1:19107"\n')
    assert addresses("--config", str(file))[1] == "127.0.0.1:19107"
