"""Network addresses as text: `host:port`, with brackets around an IPv6 address; and networks."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

from streaming.user_error import UserError

HIGHEST_PORT = 0xFFFF


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port` or `[IPv6]:port`. Raises UserError if the text is not of that form."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > HIGHEST_PORT:
        raise UserError(f"{address!r} is not host:port, with a port up to {HIGHEST_PORT}")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not is_bracketed:
        shown = address_text(host.strip("[]"), int(port))
        raise UserError(f"{address!r} is not host:port: write an IPv6 address in brackets, {shown}")
    return host.strip("[]") if is_bracketed else host, int(port)


def bootstrap_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Split a list of addresses, separated by commas. Raises UserError."""
    return [host_and_port(address.strip()) for address in bootstrap.split(",")]


def address_text(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def network_of(text: str) -> IPv4Network | IPv6Network:
    """Parse an address or a network in CIDR notation. Raises ValueError, which says what to write."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write an address or a network such as 10.0.0.0/8") from None
