"""Patterns that know clients again: addresses, networks and globs, as plain names or pseudonyms."""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from expectations.conversation.pseudonyms import Pseudonyms


class AddressPattern:
    """A network in CIDR notation, or an address with or without a port. IPv6 may have brackets."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if a network is not valid."""
        self._text = text.replace("[", "").replace("]", "") if "]:" not in text else text
        self._network = _network(text) if "/" in text else None

    def covers(self, address: str) -> bool:
        """Whether the pattern covers an address with a port, as findings have it."""
        host = address.rpartition(":")[0].strip("[]")
        if self._network is not None:
            return ip_address(host) in self._network
        return self._text in (address, host)


def whole(key: str, pattern: str, signs: str) -> str:
    """Return a pattern that covers one client. Raises ValueError for a pattern of several."""
    if any(sign in pattern for sign in signs):
        raise ValueError(
            f'with identities = "keyed-hash" {key} must name one client in full, not {pattern!r}'
        )
    return pattern


def pseudonym(client: str, pseudonyms: Pseudonyms) -> str:
    """Replace an address with or without a port."""
    is_bare = ":" not in client or (client.count(":") > 1 and "]:" not in client)
    return pseudonyms.host(bracketed(client)) if is_bare else pseudonyms.address(client)


def bracketed(host: str) -> str:
    """Return a host as addresses with a port have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and "[" not in host else host


def matches(glob: str | None, text: str | None) -> bool:
    """Whether a text matches a glob; None for a glob matches anything."""
    return glob is None or (text is not None and fnmatchcase(text, glob))


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write a network such as 10.0.0.0/8") from None
