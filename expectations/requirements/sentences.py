"""The ledger: what the five KIPs say, sentence by sentence, and which rules judge it.

One table a KIP holds its normative sentences in our own words; `shipped.toml` holds what rules judge without
a sentence of a KIP, with the place in Kafka's code or protocol guide. A sentence that no rule judges says
why a passive reader of the wire cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent
SHIPPED = "shipped"
"""The source of sentences that stand in no KIP."""


class Sentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One sentence: `says` is in our own words, `section` its place in the source.

    It has `rules`, ids of those that judge it, or `not_observable`, the reason why none does.
    """

    section: str
    says: str
    rules: tuple[str, ...] = ()
    not_observable: str = ""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sentences of one source: a KIP, or SHIPPED."""

    source: str
    sentence: tuple[Sentence, ...]


def tables() -> Iterator[Table]:
    """Read all tables of the ledger. Raises msgspec.ValidationError for one that is not valid."""
    for path in sorted(FOLDER.glob("*.toml")):
        yield msgspec.toml.decode(path.read_bytes(), type=Table)


def sentences_of(rule: str) -> Iterator[tuple[str, Sentence]]:
    """Give the sentences that a rule judges, each with its source."""
    for table in tables():
        for sentence in table.sentence:
            if rule in sentence.rules:
                yield table.source, sentence
