"""Claims about a server: that it speaks Kafka, what it has responded to and advertised, and whom it serves.

Each connection to the server that shows the same makes the same claim, and equal claims are merged: their
times become those of the first and the last showing.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from decoders.protocol import API_VERSIONS
from expectations.conversation.bodies import AdvertisedRanges
from expectations.conversation.observation import ConnectionKey
from expectations.identity.claim import Claim, Identity, IdentityKind

LONGEST_ADVERTISEMENT: Final = 512
"""APIs of an advertisement that is remembered. Kafka has a hundred."""
MOST_VERSIONS: Final = 64
"""Versions of ApiVersions whose treatment by a server is remembered. Kafka has six."""
_OF_RANGES: Final = 1 << 62
"""The bit that numbers of advertisements have and those of answered versions lack."""
_OF_SERVICE: Final = 1 << 61
"""The bit that numbers of claims about whom a server serves have and those of answered versions lack."""


def is_remembered(api_key: int, api_version: int) -> bool:
    """Whether claims are made that a server responded to an API version, or closed upon it.

    A broker responds to every version of ApiVersions, if only with error 35. So a client can name ever new
    ones, and would displace what else is known of the server.
    """
    return api_key != API_VERSIONS or 0 <= api_version < MOST_VERSIONS


def answered_claim(cluster: str, server: str, api_key: int, api_version: int, at: int) -> Claim:
    """Return the claim that a server responded to an API version at a time, in nanoseconds."""
    identity = Identity(IdentityKind.BROKER, cluster, server)
    claim = claim_of_server(identity, api_key << 16 | api_version, at)
    return msgspec.structs.replace(claim, api_key=api_key, api_version=api_version)


def advertised_claim(cluster: str, server: str, ranges: AdvertisedRanges, at: int, witness: bytes) -> Claim:
    """Return the claim that a server advertised its ranges at a time to the connection `witness`.

    A list of more than LONGEST_ADVERTISEMENT entries is claimed without them: the server may support
    anything.
    """
    kept = tuple(sorted(ranges)) if len(ranges) <= LONGEST_ADVERTISEMENT else ()
    identity = Identity(IdentityKind.BROKER, cluster, server)
    claim = claim_of_server(identity, _OF_RANGES | number_of(kept), at)
    return msgspec.structs.replace(claim, ranges=kept, witness=witness)


def service_claim(
    cluster: str, server: str, at: int, witness: bytes, *, after_login: bool, told_first: bool
) -> Claim:
    """Return the claim that a server served the connection `witness` at a time, in nanoseconds."""
    identity = Identity(IdentityKind.BROKER, cluster, server)
    claim = claim_of_server(identity, _OF_SERVICE | told_first << 1 | after_login, at)
    return msgspec.structs.replace(claim, witness=witness, after_login=after_login, told_first=told_first)


def kafka_claim(key: ConnectionKey) -> Claim:
    """Return the claim that a server address speaks Kafka, as its response on a connection shows."""
    claim = claim_of_server(Identity(IdentityKind.LISTENER, key.cluster, key.server), 0, 0)
    return msgspec.structs.replace(claim, connection=key.id, client=key.client, has_left=False)


def is_made_once(claim: Claim) -> bool:
    """Whether a server's claim is never made again, so that it is kept however long the server is silent."""
    is_listener = claim.identity.kind is IdentityKind.LISTENER
    if is_listener:
        return claim.foreign is None
    return not claim.connection and claim.ranges is None and claim.after_login is None


def number_of(shown: object) -> int:
    """Number what a server showed, equally on all connections: 62 bits of a digest."""
    digest = hashlib.blake2b(msgspec.msgpack.encode(shown), digest_size=8).digest()
    return int.from_bytes(digest) >> 2


def claim_of_server(identity: Identity, number: int, at: int) -> Claim:
    """Return a claim about a server, whose address names the identity, that belongs to no connection."""
    return Claim(
        identity=identity,
        connection=b"",
        first_sequence=number,
        as_of=0,
        client="",
        server=identity.name,
        opened_at=at,
        since=at,
        until=at,
        before_until=0,
        has_left=True,
        began_whole=True,
        whole=True,
    )
