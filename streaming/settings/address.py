"""Network addresses as text: `host:port`, with brackets around an IPv6 address."""

from __future__ import annotations

from streaming.user_error import UserError

HIGHEST_PORT = 0xFFFF


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port` or `[IPv6]:port`. Raises UserError if the text is not of that form."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > HIGHEST_PORT:
        raise UserError(f"{address!r} is not host:port, with a port up to {HIGHEST_PORT}")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not is_bracketed:
        raise UserError(f"{address!r} is not host:port: write an IPv6 address in brackets, [{host}]:{port}")
    return host.strip("[]") if is_bracketed else host, int(port)


def bootstrap_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Split a list of addresses, separated by commas. Raises UserError."""
    return [host_and_port(address.strip()) for address in bootstrap.split(",")]


def address_text(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
