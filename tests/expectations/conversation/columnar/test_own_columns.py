"""Templates and own values that columns tell are those that `split` makes of the scalar code's statements."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.frame.record import Kind, Record
from decoders.protocol import API_VERSIONS, CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT, SHARE_FETCH
from decoders.wire.columnar.events import Events
from decoders.wire.columnar.frames import FrameBatch, FrameColumns
from expectations.conversation.columnar import statement_cache
from expectations.conversation.columnar.statement_cache import StatementCache
from expectations.conversation.columnar.statement_columns import AT, NO_TEXT, StatementColumns
from expectations.conversation.statement_template import OwnValues
from expectations.conversation.texts import RESERVED_UUIDS, UuidForm, own_uuid, written
from tests.decoders.frame.columnar.batches import record_of
from tests.examples import examples
from tests.expectations.conversation.columnar.scalar_reads import (
    READER,
    SCHEMAS,
    observed,
    request,
    said,
    scalar_reads,
)

OWN = uuid.UUID("12345678-9abc-def0-fedc-ba9876543210").bytes
UNLIKE = b"\xfb\xef\xff" * 5 + b"\xff"
"""A UUID whose base64 has characters in which the two alphabets differ."""
UUIDS = st.sampled_from([*RESERVED_UUIDS, OWN, UNLIKE, bytes(15) + b"\x02"]) | st.binary(
    min_size=16, max_size=16
)
MEMBERS = st.one_of(
    st.builds(written, UUIDS, st.sampled_from(UuidForm)),
    st.sampled_from(
        [
            "",
            " ",
            "m-1",
            "A" * 21 + "B",
            "A" * 20 + "-+",
            "A" * 21 + "ä",
            "Ab" * 16,
            written(OWN, UuidForm.KAFKA)[:-1] + "B",
            written(OWN, UuidForm.KAFKA) + "=",
            written(OWN, UuidForm.HYPHENATED)[:-1] + "F",
            "member ID of thirty-six characters !",
            "x" * 300,
        ]
    ),
    st.text(max_size=24),
)
TEXTS = st.sampled_from(
    ["", " ", "\t\n", "\u2003", "app", "a\0b", "\0", "ä", "\x01" * 300, "\x01" * 400, "y" * 300]
)
EPOCHS = st.sampled_from([0, -1, -2, -3, 1, 2, 5, 2**31 - 1, -(2**31)])
APIS = [
    SCHEMAS.by_key[key] for key in (API_VERSIONS, CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT, SHARE_FETCH, 3)
]


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    api = draw(st.sampled_from(APIS))
    version = draw(st.sampled_from([api.versions.lowest, api.versions.highest]))
    has_instance_id = api.key == API_VERSIONS and version == api.versions.highest
    return {
        "api": api,
        "version": version,
        "said": {
            "groupId": draw(TEXTS),
            "memberId": draw(MEMBERS),
            "memberEpoch": draw(EPOCHS),
            "clientSoftwareName": draw(MEMBERS),
            "clientSoftwareVersion": "1",
        },
        "client_id": draw(st.none() | TEXTS),
        "instance_id": draw(UUIDS) if has_instance_id else None,
    }


def contents(columns: StatementColumns, number: int) -> tuple[object, ...]:
    """The template and the own values of a statement, whatever numbers they have."""
    column = columns.columns[:, number].tolist()
    client, group = (
        None if column[AT[name]] == NO_TEXT else columns.texts[column[AT[name]]]
        for name in ("client", "group")
    )
    return columns.templates[column[AT["template"]]], client, group, *column[AT["instance_first"] :]


CACHE = StatementCache(SCHEMAS, b"")
"""One for all examples: what it remembers of one must not show in another."""


@examples(150)
@given(st.lists(requests(), max_size=8))
def test_columns_are_those_of_statements_that_were_split(drawn: list[dict[str, Any]]) -> None:
    records = [request(sequence, **one) for sequence, one in enumerate(drawn, 1)]
    statements, found = observed(records), said(records, CACHE)
    expected = StatementColumns.of(statements)
    assert [contents(found.statements, number) for number in found.places.tolist()] == [
        contents(expected, number) for number in range(len(records))
    ]
    assert len(found.statements) == len({*statements})
    again = said(records, CACHE)
    assert [*again.compared.fingerprints[again.places]] == [*found.compared.fingerprints[found.places]]


def commit(sequence: int, member_id: str) -> Record:
    api = SCHEMAS.by_key[OFFSET_COMMIT]
    return request(sequence, api, api.versions.highest, {"groupId": "g", "memberId": member_id})


@pytest.mark.parametrize("form", UuidForm)
def test_members_of_one_form_share_a_template(form: UuidForm, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [written(bytes([number]) * 16, form) for number in range(190, 199)]
    forms = {own[1] for name in names if (own := own_uuid(name)) is not None}
    read = scalar_reads(monkeypatch)
    found = said([commit(sequence, name) for sequence, name in enumerate(names, 1)])
    assert len(read) == len(forms)
    assert {template.form for template in found.statements.templates} == forms
    assert all(OwnValues.MEMBER in template.own for template in found.statements.templates)
    assert len(found.statements.templates) == len(forms)


def test_invented_names_are_learnt_without_reading_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read = scalar_reads(monkeypatch)
    found = said([commit(sequence, f"m-{sequence}") for sequence in range(1, 9)])
    assert len(read) == 1
    assert len(found.statements.templates) == len({*found.compared.numbers.tolist()}) == 8


def test_texts_count_as_bytes_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_cache, "BYTE_CAPACITY", 1_000)
    cache, api = StatementCache(SCHEMAS, b""), SCHEMAS.by_key[3]
    for sequence in range(1, 4):
        assert not cache.clear_if_full()
        said([request(sequence, api, 1, {}, client_id=f"{sequence}" * 400)], cache)
    assert cache.clear_if_full()
    assert not cache.clear_if_full()


def test_what_events_say_counts_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers choose sizes and names, of which each makes a template of its own."""
    monkeypatch.setattr(statement_cache, "CAPACITY", 3)
    cache = StatementCache(SCHEMAS, b"")
    for size in range(1, 5):
        assert not cache.clear_if_full()
        said([record_of(Kind.INVALID_SIZE, size, connection=bytes(16), true_length=size)], cache)
    assert cache.clear_if_full()
    assert not cache.clear_if_full()


def test_a_batch_may_be_empty() -> None:
    nothing = FrameBatch(np.empty(0, np.uint8), FrameColumns.empty(0), Events.of([]), [])
    assert len(StatementCache(SCHEMAS, b"").of_batch(nothing, READER.read(nothing)).statements) == 0
