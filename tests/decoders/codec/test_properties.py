"""Any bytes are a request, a response or a failure, and take no more memory than their length justifies."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.codec.program import FieldKind, Instruction, Program, compile_message
from decoders.codec.request import read_request
from tests.decoders.codec.samples import API_VERSIONS, SCHEMAS, damaged, requests, responses
from tests.examples import examples
from tests.fuzz.invariants import ASKED, a_cut_request, a_request, a_response

PROGRAMS = [
    compile_message(message, version)
    for api, version in API_VERSIONS
    for message in (api.request, api.response)
]
# Seen: just under 100 bytes for each byte of a frame, in arrays of small structs and in unknown tags.
BYTES_FOR_A_BYTE = 200
BYTES_FOR_A_FRAME = 32_000


ANY = st.sampled_from(API_VERSIONS)
REQUESTS = ANY.flatmap(lambda one: damaged(requests(*one))).map(lambda sample: sample.frame)
ASKED_RESPONSES = ANY.flatmap(lambda one: damaged(responses(*one))).map(
    lambda sample: ASKED.pack(*sample.paired or (0, 0)) + sample.frame
)


@examples(300)
@given(frame=REQUESTS | st.binary(max_size=80))
def test_any_bytes_are_a_request_or_a_failure(frame: bytes) -> None:
    a_request(frame)
    a_cut_request(frame)


@examples(300)
@given(frame=ASKED_RESPONSES | st.binary(max_size=80))
def test_any_bytes_are_a_response_or_a_failure(frame: bytes) -> None:
    a_response(frame)


def allocated(read: Callable[[], object]) -> int:
    """The peak of bytes that a call allocates, without those that a first call keeps for ever."""
    read()
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@examples(200)
@given(frame=REQUESTS)
def test_a_frame_takes_no_more_memory_than_it_justifies(frame: bytes) -> None:
    limit = BYTES_FOR_A_FRAME + BYTES_FOR_A_BYTE * len(frame)
    assert allocated(lambda: read_request(SCHEMAS, frame)) < limit


@pytest.mark.parametrize("elements", [1_000, 10_000])
def test_an_array_of_the_smallest_structs_takes_no_more_either(elements: int) -> None:
    # Metadata v0 with empty names: two bytes each.
    frame = struct.pack(">hhihi", 3, 0, 7, -1, elements) + bytes(2 * elements)
    limit = BYTES_FOR_A_FRAME + BYTES_FOR_A_BYTE * len(frame)
    assert 100 * elements < allocated(lambda: read_request(SCHEMAS, frame)) < limit


def instructions(program: Program) -> Iterator[Instruction]:
    for one in (*program.fields, *program.tagged.values()):
        yield from (each for each in (one, one.element) if each)
        if one.element and one.element.program:
            yield from instructions(one.element.program)
        elif one.program:
            yield from instructions(one.program)


def least_size(one: Instruction) -> int:
    """The fewest bytes that a value takes."""
    if one.kind is FieldKind.STRUCT and one.program:
        return one.nullable or one.program.flexible + sum(map(least_size, one.program.fields))
    return 1


def depth(program: Program) -> int:
    return 1 + max((depth(one.program) for one in instructions(program) if one.program), default=0)


def test_every_element_of_an_array_takes_a_byte() -> None:
    """So an array has at most as many elements as bytes are left in the frame."""
    elements = [one.element for program in PROGRAMS for one in instructions(program) if one.element]
    assert len(elements) > 1_000
    assert min(map(least_size, elements)) >= 1


def test_no_message_is_deep() -> None:
    assert 3 <= max(map(depth, PROGRAMS)) <= 8
