"""Identities as bytes do what identities as objects do, and only what a batch touches is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from decoders.retention import KEPT_FOR
from decoders.schema.registry import default_schemas
from expectations.identity.claim import DIGEST_BYTES, Claim, IdentityKind, united
from expectations.identity.packed_claims import PackedClaims
from expectations.judging import identity_state
from expectations.judging.identity_judge import IdentityJudge
from expectations.judging.identity_state import ALIKE_LIMIT, Group, IdentityState
from streaming.state import StateError, identities
from streaming.state.identities import STATE_VERSION, StoredIdentities
from tests.examples import examples
from tests.exchange import ID_A
from tests.expectations.judging.claims import claims_of_all, instance, negotiated, strangers
from tests.streaming.state.identity_store import IdentityStore

LAYOUT: Final = Path(__file__).parent / "layouts" / f"identities-{STATE_VERSION}.bin"
JUDGE: Final = IdentityJudge(default_schemas().api_names)
LIMIT: Final = 6
PAGE: Final = 3_000


@cache
def claims_to_choose() -> Sequence[Claim]:
    """Claims of clients, instances and listeners: rules that wait, that accuse at once, that remember."""
    made = [claim for number in range(1, 4) for claim in claims_of_all(negotiated(number, asks=number == 1))]
    made += claims_of_all(instance(4, "orders")) + claims_of_all(instance(5, "billing"))
    made += [claim for part in strangers(3) for claim in part]
    return made + [renamed(made[0], f"client-{number}") for number in range(2 * LIMIT)]


def renamed(claim: Claim, name: str) -> Claim:
    return msgspec.structs.replace(claim, identity=msgspec.structs.replace(claim.identity, name=name))


@cache
def drawn_claims() -> Sequence[Claim]:
    """All of these, and a later snapshot of an instance, which shows at once that another shares its ID."""
    heard_again = instance(4, "orders")
    heard_again.wait(5)
    heard_again.request("Metadata", 14, instance_id=ID_A)
    return [*claims_to_choose(), *claims_of_all(heard_again)]


CLAIMS = st.lists(st.integers(0, len(drawn_claims()) - 1), max_size=LIMIT + 2)
STEPS = st.lists(st.one_of(CLAIMS, st.sampled_from(["tick", "silence", "store"])), max_size=16)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (identity_state, identities):
        monkeypatch.setattr(module, "GROUP_LIMIT", LIMIT)
    monkeypatch.setattr(identities, "PAGE_BYTES", PAGE)


@pytest.mark.usefixtures("_small")
@examples(150)
@given(STEPS)
def test_identities_as_bytes_are_judged_like_identities_as_objects(steps: list[list[int] | str]) -> None:
    objects, store = IdentityState(), IdentityStore()
    stored, later = store.load(), 0
    for step in steps:
        if step == "store":
            store.save(stored)
            stored = store.load()
        elif step == "tick":
            assert JUDGE.tick(stored) == JUDGE.tick(objects)
        elif step == "silence":
            later += 2 * KEPT_FOR
        else:
            claims = [postponed(drawn_claims()[int(number)], later) for number in step]
            assert JUDGE.process(stored, PackedClaims.of(claims)) == JUDGE.process(objects, claims)
        assert len(stored) == len(objects.groups)
        assert (stored.clock, stored.tick) == (objects.clock, objects.tick)
    store.save(stored)
    assert [*everything(store.load()).items()] == [*as_bytes(objects).items()]
    assert_half_is_alive(store)


def postponed(claim: Claim, later: int) -> Claim:
    return msgspec.structs.replace(claim, since=claim.since + later, until=claim.until + later)


def as_bytes(objects: IdentityState) -> dict[bytes, Group]:
    return {identity.digest: group for identity, group in objects.groups.items()}


def everything(stored: StoredIdentities) -> dict[bytes, Group]:
    ids = np.frombuffer(stored._ids, f"V{DIGEST_BYTES}").tolist()
    return {identity: stored._group(place) for place, identity in enumerate(ids)}


def assert_half_is_alive(store: IdentityStore) -> None:
    """All pages but the newest are at least half full of what is alive."""
    rows = store.load()._rows
    for number, packed in list(store.pages.items())[:-1]:
        alive = int(rows["size"][rows["page"] == number].sum())
        assert alive >= PAGE // 2
        assert alive <= len(zstandard.decompress(packed))


def filled(count: int) -> IdentityStore:
    """A store of so many identities, each settled."""
    store = IdentityStore()
    stored = store.load()
    JUDGE.process(stored, (renamed(claims_to_choose()[0], f"name-{number}") for number in range(count)))
    for _ in range(2):
        JUDGE.tick(stored)
    store.save(stored)
    return store


def test_a_batch_reads_and_writes_the_pages_that_it_touches() -> None:
    store = filled(1_500)
    before = dict(store.pages)
    assert len(before) > 2
    stored = store.load()
    JUDGE.process(stored, [renamed(claims_to_choose()[0], f"new-{number}") for number in range(5)])
    packed = store.save(stored)
    assert len(packed.written) == 1
    assert len(store.reads) <= 1
    assert sum(before[number] is not store.pages.get(number) for number in before) <= 1
    JUDGE.process(stored := store.load(), [renamed(claims_to_choose()[0], "name-0")])
    store.reads.clear()
    store.save(stored)
    assert len(store.reads) <= 1


def test_a_tick_without_unsettled_identities_reads_and_writes_nothing() -> None:
    store = filled(100)
    before = store.index
    stored = store.load()
    JUDGE.tick(stored)
    packed = store.save(stored)
    assert (packed.index, packed.written, packed.removed, store.reads) == (before, {}, [], [])


def test_a_tick_reads_the_pages_of_what_it_settles_alone() -> None:
    store = filled(100)
    JUDGE.process(stored := store.load(), [renamed(claims_to_choose()[0], "new")])
    store.save(stored)
    for pages_read in (0, 1):
        store.reads.clear()
        JUDGE.tick(stored := store.load())
        assert len(store.reads) == pages_read
        store.save(stored)
    assert stored.is_settled()


def test_what_is_forgotten_is_not_stored_although_nothing_else_changes() -> None:
    store = filled(5)
    late = postponed(renamed(claims_to_choose()[0], "late"), KEPT_FOR // 2)
    JUDGE.process(stored := store.load(), [late])
    store.save(stored)
    forgetting = store.load()
    forgetting.forget_silent(claims_to_choose()[0].until + 1)
    store.save(forgetting)
    assert everything(store.load()).keys() == {late.identity.digest}


def test_a_claim_that_nobody_can_judge_is_stored_as_it_came() -> None:
    """The first claim of what a client shows, and any of a client ID, whose rules all wait."""
    one, two, three = (
        claim
        for number in range(1, 4)
        for claim in united(claims_of_all(negotiated(number, asks=True)))
        if claim.identity.kind is IdentityKind.CLIENT
    )
    store, packed = IdentityStore(), [PackedClaims.of([claim]) for claim in (one, two, three)]
    for number, claim in enumerate(packed):
        stored = store.load()
        assert list(stored.claimed(claim, frozenset({IdentityKind.CLIENT}))) == []
        store.save(stored)
        (content,) = (zstandard.decompress(page) for page in store.pages.values())
        assert content.count(claim.packed) == 1
        (group,) = everything(store.load()).values()
        assert [known.claim for known in group.known] == [one, two, three][: number + 1]
    ((group, again),) = store.load().claimed(packed[0], frozenset({IdentityKind.CLIENT}))
    assert (len(group.known), again) == (3, [one])
    ((group, judged),) = store.load().claimed(packed[0], frozenset())
    assert judged == [one]


def test_a_claim_for_which_room_may_be_needed_is_not_appended() -> None:
    """A ninth refusal that is like eight others is forgotten."""
    one = claims_to_choose()[0]
    stored = IdentityStore().load()
    for number in range(ALIKE_LIMIT):
        claim = msgspec.structs.replace(one, connection=bytes([1 + number]) * 16)
        assert list(stored.claimed([claim], frozenset({IdentityKind.CLIENT}))) == []
    ninth = msgspec.structs.replace(one, connection=bytes([1 + ALIKE_LIMIT]) * 16)
    ((group, added),) = stored.claimed([ninth], frozenset({IdentityKind.CLIENT}))
    assert (len(group.known), added) == (ALIKE_LIMIT, [ninth])


def test_a_page_of_another_size_is_refused_with_advice() -> None:
    store = filled(10)
    store.pages[0] = store.pages[0][:-1]
    with pytest.raises(StateError, match="bring the folder back as it was"):
        everything(store.load())


def test_state_of_another_version_is_refused_with_advice() -> None:
    store = filled(1)
    assert store.index is not None
    store.index = bytes([STATE_VERSION + 1]) + store.index[1:]
    with pytest.raises(StateError, match="start with a new checkpoint folder"):
        store.load()


def test_identities_stored_in_this_layout_are_read() -> None:
    """A change of the layout needs a new version number and, by `make layout`, new bytes."""
    store = IdentityStore()
    store.index, store.pages = msgspec.msgpack.decode(
        LAYOUT.read_bytes(), type=tuple[bytes, dict[int, bytes]]
    )
    assert everything(store.load()) == everything(sample().load())


def sample() -> IdentityStore:
    """Identities of every kind that claims_to_choose has, one of them accused."""
    store = IdentityStore()
    stored = store.load()
    JUDGE.process(stored, claims_to_choose())
    JUDGE.tick(stored)
    store.save(stored)
    return store
