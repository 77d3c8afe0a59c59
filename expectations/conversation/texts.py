"""The names and IDs that peers choose: bounded, and read as UUIDs in every form that clients write.

`bounded` shortens a text where it becomes a fact, so one limit bounds state, findings, labels and reports:
Kafka limits a name or an ID only by the size of the frame. Different texts stay different, since a shortened
one holds the length and a digest of the whole.

Kafka writes a UUID as unpadded URL-safe base64, other clients also in hex or in other base64. All are read;
`own_uuid` also says which form it was, so that the text can be written again.
"""

from __future__ import annotations

import base64
import enum
import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Final

LONGEST_TEXT: Final = 256
"""Characters of a text that are kept. Real client, member and group IDs have fewer than 100."""
BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that a broker strips from a member ID: those up to U+0020."""
RELEASED_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Client software names and versions that released Kafka accepts: a letter or digit at both ends."""
SOFTWARE_IN_TEXT: Final = re.compile(r"[.\-a-zA-Z0-9]+")
"""Those that the text of KIP-511 accepts, which include all that released Kafka accepts."""
_DIGEST_BYTES: Final = 8


def is_blank(text: str | None) -> bool:
    """Whether a text is null or has nothing but BLANKS."""
    return text is None or text.strip(BLANKS) == ""


def utf16_units(text: str) -> int:
    """Count UTF-16 code units, the length of a string in Java."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def bounded(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text, shortened if it has more than `longest` characters.

    A shortened text ends with its original length and a digest. It keeps what rules read of a text: whether
    it is blank, its first and last character, and whether all others may be part of a software name
    (KIP-511). A shortened text is always longer than `longest`, so none can be mistaken for a whole one.
    """
    if len(text) <= longest:
        return text
    kept, left = text[:longest], text[longest:]
    if is_blank(text):
        return kept
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    separator = "." if SOFTWARE_IN_TEXT.fullmatch(left) else "…"
    return f"{kept}{separator}cut.{len(text)}.{digest}{text[-1]}"


def bounded_or_none(text: str | None) -> str | None:
    """Return a text that may be null as `bounded` does."""
    return None if text is None else bounded(text)


def is_shortened(text: str) -> bool:
    """Whether a bounded text is not whole."""
    return len(text) > LONGEST_TEXT


UUID_BYTES: Final = 16
ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
RESERVED_UUIDS = (bytes(UUID_BYTES), bytes(UUID_BYTES - 1) + b"\x01")
"""The UUIDs that Kafka reserves: zero and one."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{22}(==)?")
_TO_STANDARD = str.maketrans("-_", "+/")
_KAFKAS = re.compile(r"[A-Za-z0-9_-]{22}")
_HEX = re.compile(r"[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}")


@functools.lru_cache(maxsize=1_000)
def identifier_text(identifier: bytes) -> str:
    """Return a UUID's 16 bytes as Kafka's `Uuid.toString` writes them: 22 characters."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()


@functools.lru_cache(maxsize=100_000)
def identifier_bytes(text: str) -> bytes | None:
    """Parse a UUID in any form that clients write: base64 of either alphabet, padded or not, or hex.

    Returns None for any other text.
    """
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    if _BASE64.fullmatch(text):
        return base64.b64decode(text[:22].translate(_TO_STANDARD) + "==")
    return None


def is_kafkas_form(text: str) -> bool:
    """Return whether text has the length and the alphabet of Kafka's form."""
    return _KAFKAS.fullmatch(text) is not None


class UuidForm(enum.IntEnum):
    """A way to write a UUID as text. Where two forms give the same text, the first counts."""

    KAFKA = 0
    HEX = 1
    HYPHENATED = 2
    UPPER_HEX = 3
    UPPER_HYPHENATED = 4
    BASE64 = 5
    PADDED_BASE64 = 6
    PADDED_URL_SAFE = 7


def _hyphenated(identifier: bytes) -> str:
    digits = identifier.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_WRITTEN: Final[Mapping[UuidForm, Callable[[bytes], str]]] = {
    UuidForm.KAFKA: identifier_text,
    UuidForm.HEX: bytes.hex,
    UuidForm.HYPHENATED: _hyphenated,
    UuidForm.UPPER_HEX: lambda identifier: identifier.hex().upper(),
    UuidForm.UPPER_HYPHENATED: lambda identifier: _hyphenated(identifier).upper(),
    UuidForm.BASE64: lambda identifier: base64.b64encode(identifier).rstrip(b"=").decode(),
    UuidForm.PADDED_BASE64: lambda identifier: base64.b64encode(identifier).decode(),
    UuidForm.PADDED_URL_SAFE: lambda identifier: base64.urlsafe_b64encode(identifier).decode(),
}

_OF_LENGTH: Final = {
    length: [form for form, write in _WRITTEN.items() if len(write(RESERVED_UUIDS[0])) == length]
    for length in {len(write(RESERVED_UUIDS[0])) for write in _WRITTEN.values()}
}
"""The forms by the length of their texts."""


def written(identifier: bytes, form: UuidForm) -> str:
    """Write a UUID's 16 bytes in a form."""
    return _WRITTEN[form](identifier)


@functools.lru_cache(maxsize=100_000)
def own_uuid(text: str | None) -> tuple[bytes, UuidForm] | None:
    """Return the UUID that a text is, and its form; None for a reserved UUID, and for any other text.

    A mixture of forms is another text.
    """
    identifier = identifier_bytes(text) if text else None
    if text is None or identifier is None or identifier in RESERVED_UUIDS:
        return None
    form = next((form for form in _OF_LENGTH.get(len(text), ()) if written(identifier, form) == text), None)
    return None if form is None else (identifier, form)


def is_own_uuid(identifier: bytes | None) -> bool:
    """Whether bytes are a UUID that is not reserved."""
    return identifier is not None and len(identifier) == UUID_BYTES and identifier not in RESERVED_UUIDS


def printable(text: str) -> str:
    r"""Write text from the wire in one line: characters that a terminal would act on are escaped, as `\n`."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
