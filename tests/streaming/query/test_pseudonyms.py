"""With keyed hashes nothing behind the decode stage holds a plain identity, and every verdict is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
import zstandard

from expectations.conversation.observation import Window
from expectations.conversation.pseudonyms import IDENTITIES, SHORTEST_KEY, Pseudonyms
from expectations.conversation.texts import RESERVED_UUIDS, identifier_bytes, identifier_text, is_blank
from expectations.judging.terms import Terms
from streaming.check.examination import examine
from tests.captures import planted
from tests.cases.notation import Case
from tests.cases.test_cases import CASES
from tests.examples import sampled
from tests.expectations.conversation.columnar.test_windows import unheard
from tests.streaming.query.stand_in import StandIn
from tests.streaming.query.test_same_as_check import SCHEMAS, fed, streamed

PSEUDONYMS = Pseudonyms(b"k" * SHORTEST_KEY)
SHORTEST_SEARCHED = 6
"""Characters of an ID that is searched for: a shorter one may be found by chance."""


def identities_of(window: Window) -> Iterator[str | bytes]:
    """Yield all that identifies a client: IDs, and the host of its address."""
    yield window.connection.client.rpartition(":")[0]
    yield window.connection.id
    for number in window.numbers:
        statement = window.statements[number]
        for named in (statement, statement.body):
            for kind, names in IDENTITIES.items():
                yield from (getattr(named, name) for name in names if isinstance(named, kind))


def forms_of(identity: str | bytes | None) -> Iterator[bytes]:
    """Yield how an identity may be written; nothing for one that identifies nobody."""
    if isinstance(identity, bytes):
        if identity not in RESERVED_UUIDS:
            yield from (identity, identity.hex().encode(), identifier_text(identity).encode())
    elif identity and len(identity) >= SHORTEST_SEARCHED and not _identifies_nobody(identity):
        yield from (identity.encode(), identity.encode().hex().encode())


def _identifies_nobody(text: str) -> bool:
    return is_blank(text) or identifier_bytes(text) in RESERVED_UUIDS


def left_of(windows: list[Window], query: StandIn) -> list[bytes]:
    """Return the plain identities that the query passed on or published."""
    written = b"".join(map(zstandard.ZstdDecompressor().decompress, query.inputs))
    written += msgspec.json.encode(list(query.findings.values()))
    # The broker is named plainly, also where a client runs on its host.
    for server in {window.connection.server for window in windows}:
        written = written.replace(server.encode(), b"")
    searched = {form for window in windows for each in identities_of(window) for form in forms_of(each)}
    return sorted(form for form in searched if form in written)


def rules_found(query: StandIn) -> Counter[tuple[str, str, int]]:
    return Counter((each.rule, each.level, each.occurrences) for each in query.findings.values())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_cases_are_judged_the_same_and_tell_nobody() -> None:
    """A share of the cases in `make test`, all in `make long`."""
    for case in sampled(CASES):
        plain, keyed = queries(case)
        assert keyed.checks == plain.checks, case.title
        assert rules_found(keyed) == rules_found(plain), case.title
        assert left_of(case.exchange()[0].windows(), keyed) == [], case.title


def queries(case: Case) -> list[StandIn]:
    """Run the query on a case with plain identities and with pseudonyms."""
    exchange, rules = case.exchange()
    records = unheard(exchange.records)
    return [streamed(records, 5, Terms(rules, pseudonyms=each)) for each in (None, PSEUDONYMS)]


def test_the_search_finds_what_is_plain() -> None:
    case = CASES[0]
    (plain, _), windows = queries(case), case.exchange()[0].windows()
    assert left_of(windows, plain) != []


def test_the_query_has_the_findings_of_check() -> None:
    terms = Terms(pseudonyms=PSEUDONYMS)
    checked = examine(planted.CAPTURE, SCHEMAS, terms=terms)
    query = streamed(fed(planted.CAPTURE), 97, terms)
    assert Counter(each.likeness() for each in query.findings.values()) == Counter(
        each.likeness() for each in checked.findings
    )
    assert all("127.0.0.1:" not in each.client for each in checked.findings)
