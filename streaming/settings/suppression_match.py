"""Whether a suppression covers a finding: rules, software and client IDs by glob, addresses by CIDR.

Suppressions name clients plainly. Where findings hold pseudonyms, so does the match: a client ID and a
client's address in full are replaced like those of findings. What covers several clients cannot be compared
with pseudonyms and is refused.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from expectations.conversation.pseudonyms import Pseudonyms
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

    def __init__(self, suppression: Suppression, pseudonyms: Pseudonyms | None = None) -> None:
        """Raises UserError if an address is not valid, or a pattern cannot be compared with pseudonyms."""
        self.suppression = suppression
        client_id, client = suppression.client_id, suppression.client
        if pseudonyms is not None:
            client_id = client_id and pseudonyms.text(_whole("client_id", client_id, "*?["))
            client = client and _pseudonym(_whole("client", client, "/"), pseudonyms)
        self._client_id = client_id
        self._client = _address(client)
        self._broker = _address(suppression.broker)

    def covers(self, finding: Finding) -> bool:
        """Whether a finding matches all given fields."""
        given = self.suppression
        return (
            fnmatchcase(finding.rule, given.rule)
            and _matches(given.client_software_name, finding.client_software_name)
            and _matches(self._client_id, finding.client_id)
            and (self._client is None or self._client.covers(finding.client))
            and (self._broker is None or self._broker.covers(finding.broker))
        )


def _whole(key: str, pattern: str, signs: str) -> str:
    """Return a pattern that covers one client. Raises UserError for another."""
    if any(sign in pattern for sign in signs):
        raise UserError(
            f'suppress: with identities = "keyed-hash" {key} must name one client in full, not {pattern!r}'
        )
    return pattern


def _pseudonym(client: str, pseudonyms: Pseudonyms) -> str:
    """Replace an address that may have a port. A bare one of IPv6 has colons, too."""
    is_bare = ":" not in client or (client.count(":") > 1 and "]:" not in client)
    if is_bare:
        return pseudonyms.host(f"[{client}]" if ":" in client and "[" not in client else client)
    return pseudonyms.address(client)


def _matches(glob: str | None, text: str | None) -> bool:
    return glob is None or (text is not None and fnmatchcase(text, glob))


def _address(text: str | None) -> AddressPattern | None:
    return None if text is None else AddressPattern(text)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UserError(f"suppress: {error}; write a network such as 10.0.0.0/8") from None
