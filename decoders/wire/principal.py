"""The name under which a client logs in, read from the first token of its login.

Of a token only the name is returned, so secrets stay behind. Nothing is returned of a token that deviates
from what its mechanism demands.

    mechanism    token                                        name
    -----------  -------------------------------------------  --------------------------------------------
    PLAIN        authorization ID, name, password (RFC 4616)  the name
    SCRAM-SHA-*  client-first-message (RFC 5802)              `n=`; not the ID of a delegation token
    OAUTHBEARER  client response (RFC 7628)                   the claim `sub` of a token that is a JWT

Tokens come in SaslAuthenticate requests, or raw after SaslHandshake v0 (KIP-43). Other mechanisms show no
name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from decoders.codec.request import read_request
from decoders.protocol import SASL_AUTHENTICATE, SASL_HANDSHAKE
from decoders.schema.registry import Schemas
from decoders.wire.framing import Frame

LONGEST_TOKEN: Final = 64 * 1024
"""Bytes of a frame with a token. Longer ones are not looked at."""
LONGEST_NAME: Final = 1_024
"""Bytes of a name in UTF-8. Longer ones are left out."""
_TOKEN: Final = "authBytes"
_PARTS_OF_PLAIN: Final = 3
_SCRAM: Final = re.compile(
    r"(?:[ny]|p=[A-Za-z0-9.-]+),(?:a=[^,]*)?,"
    r"n=(?P<name>(?:[^,=]|=2C|=3D)+),r=[\x21-\x2b\x2d-\x7e]+(?P<more>(?:,[^,]+)*)"
)
_OF_DELEGATION: Final = "tokenauth=true"
_ESCAPED: Final = re.compile(r"=(2C|3D)")
_GS2_HEADER: Final = re.compile(r"n,(?:a=[^,]*)?,")
_BEARER: Final = re.compile(r"auth=Bearer +[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*", re.IGNORECASE)


class _Claims(msgspec.Struct):
    sub: str = ""


_CLAIMS: Final = msgspec.json.Decoder(_Claims)


def _of_plain(token: str) -> str:
    parts = token.split("\0")
    return parts[1] if len(parts) == _PARTS_OF_PLAIN and parts[2] else ""


def _of_scram(token: str) -> str:
    found = _SCRAM.fullmatch(token)
    if found is None or _OF_DELEGATION in found["more"].split(","):
        return ""
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), found["name"])


def _of_bearer(token: str) -> str:
    header, *pairs = token.split("\x01")
    found = [match for pair in pairs if (match := _BEARER.fullmatch(pair))]
    if not _GS2_HEADER.fullmatch(header) or pairs[-2:] != ["", ""] or len(found) != 1:
        return ""
    claims = found[0][1]
    try:
        return _CLAIMS.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))).sub
    except (binascii.Error, ValueError, RecursionError):
        return ""


_MECHANISMS: Final[Mapping[str, Callable[[str], str]]] = {
    "PLAIN": _of_plain,
    "SCRAM-SHA-256": _of_scram,
    "SCRAM-SHA-512": _of_scram,
    "OAUTHBEARER": _of_bearer,
}


def name_of(mechanism: str, token: bytes) -> str:
    """Return the name that the first token of a login shows, empty if it shows none."""
    read = _MECHANISMS.get(mechanism)
    try:
        name = read(token.decode()) if read else ""
    except UnicodeDecodeError:
        return ""
    return name if is_name(name) else ""


def is_name(name: str) -> bool:
    """Whether a name is kept: it is printable, not blank, and not too long."""
    if not name.isprintable() or name.isspace():
        return False
    return 0 < len(name.encode()) <= LONGEST_NAME


class PrincipalReader:
    """Follows what the client of one connection sends, to the name under which it logs in."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._mechanism = ""

    @property
    def awaits_token(self) -> bool:
        """Whether the client's next frame may hold a name."""
        return bool(self._mechanism)

    def name_in(self, frame: Frame, *, is_token: bool) -> str:
        """Return the name in the client's next frame, empty if it has none. A raw token is no request."""
        mechanism, self._mechanism = self._mechanism, ""
        if len(frame.payload) < frame.true_length or frame.true_length > LONGEST_TOKEN:
            return ""
        if is_token:
            return name_of(mechanism, frame.payload)
        api_key = int.from_bytes(frame.payload[:2], signed=True)
        if api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            return ""
        request = read_request(self._schemas, frame.payload, spans=(_TOKEN,))
        if not request.known or request.failure is not None or request.body is None or request.remarks:
            return ""
        if api_key == SASL_HANDSHAKE:
            chosen = request.body["mechanism"]
            self._mechanism = chosen if chosen in _MECHANISMS else ""
            return ""
        return "".join(name_of(mechanism, frame.payload[begin:end]) for begin, end in request.spans[_TOKEN])
