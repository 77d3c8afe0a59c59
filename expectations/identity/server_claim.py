"""Claims about a server: that it speaks Kafka, what it has answered, and what it advertises.

Each connection to the server that shows the same makes the same claim, and equal claims are merged: their
times become those of the first and the last showing.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from decoders.protocol import API_VERSIONS
from expectations.conversation.bodies import AdvertisedRanges
from expectations.conversation.window import ConnectionKey
from expectations.identity.claim import Claim, Identity, IdentityKind

LONGEST_ADVERTISEMENT: Final = 512
"""APIs of an advertisement that is remembered. Kafka has a hundred."""
MOST_VERSIONS: Final = 64
"""Versions of ApiVersions of which it is remembered what a server did with them. Kafka has seven."""
_OF_RANGES: Final = 1 << 62
"""The bit that tells the numbers of advertisements from those of answered versions."""


def is_remembered(api_key: int, api_version: int) -> bool:
    """Whether it is remembered that a server responded to an API version, or closed upon it.

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


def kafka_claim(key: ConnectionKey) -> Claim:
    """Return the claim that a server address speaks Kafka, as a connection shows on which it responded."""
    claim = claim_of_server(Identity(IdentityKind.LISTENER, key.cluster, key.server), 0, 0)
    return msgspec.structs.replace(claim, connection=key.id, client=key.client, has_left=False)


def is_made_once(claim: Claim) -> bool:
    """Whether a server's claim is never made again, so that it must be kept however silent the server is."""
    is_listener = claim.identity.kind is IdentityKind.LISTENER
    return claim.foreign is None if is_listener else not claim.connection and claim.ranges is None


def number_of(shown: object) -> int:
    """Return the number of what a server showed, for all connections the same: 62 bits of its digest."""
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
