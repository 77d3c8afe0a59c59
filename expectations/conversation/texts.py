"""The texts that peers choose: names and IDs, of which only a bounded part is kept.

`bounded` shortens a text where it becomes a fact, so one limit bounds state, findings, labels and reports:
Kafka limits a name or an ID only by the size of the frame. Different texts stay different, since a shortened
one holds the length and a digest of the whole.
"""

from __future__ import annotations

import hashlib
import re
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
