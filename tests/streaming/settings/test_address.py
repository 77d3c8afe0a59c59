"""Addresses are host:port, with an IPv6 address in brackets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.settings.address import address_text, host_and_port
from streaming.user_error import UserError


@given(st.integers(0, 65535), st.sampled_from(["localhost", "10.0.0.1", "::1", "fe80::1", "broker.example"]))
def test_an_address_is_split_into_host_and_port_and_joined_again(port: int, host: str) -> None:
    assert host_and_port(address_text(host, port)) == (host, port)


@pytest.mark.parametrize("text", ["::1:9108", "[::1:9108", "::1]:9108"])
def test_an_ipv6_address_without_brackets_is_told_how_to_be_written(text: str) -> None:
    with pytest.raises(UserError, match=r"in brackets, \[::1\]:9108"):
        host_and_port(text)


@given(st.text(max_size=12))
def test_any_other_text_is_a_user_error(text: str) -> None:
    try:
        host, port = host_and_port(text)
    except UserError as error:
        assert "host:port" in str(error)
    else:
        assert host and 0 <= port <= 65535
