"""Owners of clients: a TOML file names them, by what clients show of themselves.

The file is a list of tables `[[owner]]`, of which the first that matches decides. There may be ten thousand,
so each is indexed by one of its keys: the network, or the part of a text before its first wildcard. Only the
few that can match are compared.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from expectations.conversation.pseudonyms import Pseudonyms
from expectations.judging.terms import ClientNames
from streaming.metrics.labels import LONGEST, RESERVED
from streaming.settings.address import network_of
from streaming.settings.mistake import read_toml
from streaming.user_error import UserError

_WILDCARD: Final = re.compile(r"[*?[]")
_REMEMBERED: Final = 20_000
"""Clients whose owner is remembered: an offence that continues asks each time."""


class Owner(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The name of an owner, and which clients are theirs: those that all given keys match.

    Texts may be globs. `client` is an address or a network in CIDR notation, `workload` a namespace and a
    workload, such as `payments/checkout`.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST)]
    client_id: str | None = None
    client_software_name: str | None = None
    client: str | None = None
    principal: str | None = None
    workload: str | None = None

    def __post_init__(self) -> None:
        """Refuse a name that means something else, an entry without keys, and an invalid network."""
        if self.name in RESERVED or not self.name.isprintable():
            raise ValueError(f"no owner can be called {self.name!r}")
        if all(getattr(self, name) is None for name in self.__struct_fields__ if name != "name"):
            raise ValueError(
                'an owner needs a key that matches clients; client_id = "*" is all that have one'
            )
        network_of(self.client or "::")


class OwnersFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The file."""

    owner: list[Owner]


class _Entry(NamedTuple):
    """An entry as clients are compared with it: globs of `ClientNames`, and a network."""

    name: str
    texts: tuple[str | None, ...]
    network: str | None


_Address = tuple[int, int]
"""The length of an address in bits, and the address as a number."""


class _Network(NamedTuple):
    """A network: the length of its addresses in bits, how many bits differ, and the bits that all share."""

    bits: int
    differ: int
    first: int

    @classmethod
    def of(cls, text: str | None) -> _Network | None:
        """Return a network in CIDR notation or of one address, None for no text."""
        if text is None:
            return None
        network = network_of(text)
        differ = network.max_prefixlen - network.prefixlen
        return cls(network.max_prefixlen, differ, int(network.network_address) >> differ)


class Owners:
    """Finds the owner of a client. Sent to workers as bytes, which a worker unpacks once."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed
        self._entries = msgspec.msgpack.decode(packed, type=list[_Entry])
        self._globs = [
            [(place, *_divided(glob)) for place, glob in enumerate(entry.texts) if glob is not None]
            for entry in self._entries
        ]
        self._networks = [_Network.of(entry.network) for entry in self._entries]
        self._by_prefix: dict[tuple[int, str], list[int]] = {}
        self._by_network: dict[tuple[int, int, int], list[int]] = {}
        for number, (globs, network) in enumerate(zip(self._globs, self._networks, strict=True)):
            place, prefix, _ = max(globs, key=lambda glob: len(glob[1]), default=(0, "", ""))
            if prefix or network is None:
                self._by_prefix.setdefault((place, prefix), []).append(number)
            else:
                self._by_network.setdefault(network, []).append(number)
        self._prefixes = sorted({(place, len(prefix)) for place, prefix in self._by_prefix})
        self._sizes = sorted({(bits, differ) for bits, differ, _ in self._by_network})
        self._remembered = lru_cache(_REMEMBERED)(self._of)

    def __reduce__(self) -> tuple[object, ...]:
        return _unpacked, (self._packed,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owners) and other._packed == self._packed

    def __hash__(self) -> int:
        return hash(self._packed)

    def of(self, names: ClientNames) -> str | None:
        """Return the owner of a client, None if it has none."""
        return self._remembered(names)

    def _of(self, shown: ClientNames) -> str | None:
        address = _address(shown.host)
        return next(
            (
                self._entries[number].name
                for number in sorted(self._candidates(shown, address))
                if _lies_in(address, self._networks[number])
                and all(_matches(prefix, rest, shown[place]) for place, prefix, rest in self._globs[number])
            ),
            None,
        )

    def _candidates(self, shown: ClientNames, address: _Address | None) -> Iterator[int]:
        for place, length in self._prefixes:
            text = shown[place]
            if text is not None:
                yield from self._by_prefix.get((place, text[:length]), ())
        if address is not None:
            for bits, differ in self._sizes:
                if bits == address[0]:
                    yield from self._by_network.get((bits, differ, address[1] >> differ), ())


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> Owners:
    """Unpack owners, which a worker gets with each task: at most those before and after a reload."""
    return Owners(packed)


def read_owners(path: Path, pseudonyms: Pseudonyms | None = None) -> Owners:
    """Read a file of owners. Raises UserError if it cannot be read or has a mistake."""
    entries = read_toml(path, OwnersFile, "the owners").owner
    try:
        return owners_of(entries, pseudonyms)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def owners_of(entries: Iterable[Owner], pseudonyms: Pseudonyms | None = None) -> Owners:
    """Return owners by entries; with `pseudonyms` clients are known by those.

    Raises ValueError for a pattern of several clients then: it cannot be compared with pseudonyms.
    """
    return Owners(msgspec.msgpack.encode([_entry(each, pseudonyms) for each in entries]))


def _entry(owner: Owner, pseudonyms: Pseudonyms | None) -> _Entry:
    client_id, client, principal = owner.client_id, owner.client, owner.principal
    if pseudonyms is None:
        texts = None, client_id, owner.client_software_name, principal, owner.workload
        return _Entry(owner.name, texts, client)
    if owner.workload is not None:
        raise ValueError('with identities = "keyed-hash" no workload is kept, so none has an owner')
    client_id = client_id and pseudonyms.text(whole("client_id", client_id, "*?["))
    principal = principal and pseudonyms.text(whole("principal", principal, "*?["))
    host = client and pseudonyms.host(bracketed(whole("client", client, "/")))
    return _Entry(owner.name, (host, client_id, owner.client_software_name, principal, None), None)


def _divided(glob: str) -> tuple[str, str]:
    """Divide a glob before its first wildcard."""
    prefix = _WILDCARD.split(glob, maxsplit=1)[0]
    return prefix, glob[len(prefix) :]


def _matches(prefix: str, rest: str, text: str | None) -> bool:
    """Whether a text matches a glob, given as `_divided` returns it."""
    if text is None or not text.startswith(prefix):
        return False
    return rest == "*" or fnmatchcase(text[len(prefix) :], rest) if rest else len(text) == len(prefix)


def _address(host: str) -> _Address | None:
    """Return the address of a host, None for a pseudonym."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        packed = socket.inet_pton(family, host.strip("[]"))
    except OSError:
        return None
    return len(packed) * 8, int.from_bytes(packed)


def _lies_in(address: _Address | None, network: _Network | None) -> bool:
    if network is None or address is None:
        return network is None
    return address[0] == network.bits and address[1] >> network.differ == network.first


def whole(key: str, pattern: str, signs: str) -> str:
    """Return a pattern that covers one client. Raises ValueError for a pattern of several."""
    if any(sign in pattern for sign in signs):
        raise ValueError(
            f'with identities = "keyed-hash" {key} must name one client in full, not {pattern!r}'
        )
    return pattern


def bracketed(host: str) -> str:
    """Return a host as addresses with a port have it: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and "[" not in host else host
