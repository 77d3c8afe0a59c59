"""Which APIs an advertisement offers on request header 3, and which it offers on older headers only.

KIP-1313 gives each API but SaslHandshake a version on request header 3. The schemas say which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from decoders.schema.registry import Api, Schemas

_HEADER_VERSION: Final = 3


class HeaderOffer(NamedTuple):
    """What an advertisement offers on request header 3.

    `offered` are pairs of an API key and the API's lowest version on header 3. `withheld` are the keys of
    APIs that have such a version while their advertised range ends below it; empty if nothing is offered.
    """

    offered: tuple[tuple[int, int], ...] = ()
    withheld: tuple[int, ...] = ()


def header_offer(schemas: Schemas, ranges: Iterable[tuple[int, int, int]]) -> HeaderOffer:
    """Compare advertised ranges (API key, lowest version, highest version) with the schemas.

    An inverted range offers and withholds nothing. Nor does one that ends below an unstable version: brokers
    do not advertise an unstable version, nor any above it.
    """
    offered, withheld = [], []
    for key, lowest, highest in ranges:
        api = schemas.api(key)
        first = _first_version(api) if api is not None else None
        if api is None or first is None or lowest > highest:
            continue
        if highest >= first:
            offered.append((key, first))
        elif api.unstable_version is None:
            withheld.append(key)
    return HeaderOffer(tuple(offered), tuple(withheld)) if offered else HeaderOffer()


def _first_version(api: Api) -> int | None:
    """Return the lowest version of an API on request header 3, None if it has none."""
    if not api.versions:
        return None
    # The header version never decreases, and few of an API's versions are on the newest header.
    found: int | None = None
    for version in range(api.versions.highest, api.versions.lowest - 1, -1):
        if api.request_header_version(version) != _HEADER_VERSION:
            break
        found = version
    return found
