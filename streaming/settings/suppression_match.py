"""Whether a suppression covers a finding: rules, software and client IDs by glob, addresses by CIDR."""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from expectations.judging.finding import Finding
from streaming.settings.configuration import Suppression
from streaming.user_error import UserError


class AddressPattern:
    """A network in CIDR notation, or an address with or without a port; IPv6 may have brackets."""

    def __init__(self, text: str) -> None:
        """Raises UserError if a network is not valid."""
        self._text = text.replace("[", "").replace("]", "") if "]:" not in text else text
        self._network = _network(text) if "/" in text else None

    def covers(self, address: str) -> bool:
        """Whether the pattern covers an address with a port, as findings name it."""
        host = address.rpartition(":")[0].strip("[]")
        if self._network is not None:
            return ip_address(host) in self._network
        return self._text in (address, host)


class SuppressionMatch:
    """The patterns of a suppression, read once."""

    def __init__(self, suppression: Suppression) -> None:
        """Raises UserError if an address is not valid."""
        self.suppression = suppression
        self._client = _address(suppression.client)
        self._broker = _address(suppression.broker)

    def covers(self, finding: Finding) -> bool:
        """Whether a finding matches all given fields."""
        given = self.suppression
        return (
            fnmatchcase(finding.rule, given.rule)
            and _matches(given.client_software_name, finding.client_software_name)
            and _matches(given.client_id, finding.client_id)
            and (self._client is None or self._client.covers(finding.client))
            and (self._broker is None or self._broker.covers(finding.broker))
        )


def _matches(glob: str | None, text: str | None) -> bool:
    return glob is None or (text is not None and fnmatchcase(text, glob))


def _address(text: str | None) -> AddressPattern | None:
    return None if text is None else AddressPattern(text)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UserError(f"suppress: {error}; write a network such as 10.0.0.0/8") from None
