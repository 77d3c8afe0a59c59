"""Frames of any API at any version, whole and damaged, and what both readers know of them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from decoders.codec.program import compile_message
from decoders.codec.request import write_request
from decoders.codec.response import write_response
from decoders.schema.header_versions import Layout
from decoders.schema.registry import Api, default_schemas
from tests.decoders.codec.bodies import bodies

SCHEMAS = default_schemas()
APIS = [api for api in SCHEMAS.apis if api.versions]
API_VERSIONS = [
    (api, version) for api in APIS for version in range(api.versions.lowest, api.versions.highest + 1)
]
KEYS = st.sampled_from([api.key for api in APIS]) | st.integers(-0x8000, 0x7FFF)
VERSIONS = st.integers(-2, 20)
CORRELATION_IDS = st.integers(-(1 << 31), (1 << 31) - 1)
CLIENT_IDS = st.none() | st.text(st.characters(codec="utf-8"), max_size=20)
INSTANCE_IDS = st.binary(min_size=16, max_size=16) | st.just(bytes(16))
FALSE_LENGTHS = st.sampled_from(
    [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\xff"]
)


@dataclass(frozen=True)
class Sample:
    """A frame and what both readers know of it; `paired` is the API and version of a response."""

    frame: bytes
    is_cut: bool = False
    paired: tuple[int, int] | None = None


def requests(api: Api, version: int) -> st.SearchStrategy[Sample]:
    """Requests of the overlay are in either layout."""
    has_instance_id = api.request_header_version(version) == 3
    return st.builds(
        lambda number, client_id, body, instance_id, layout: Sample(
            write_request(SCHEMAS, api.key, version, number, client_id, body, instance_id, layout)
        ),
        CORRELATION_IDS,
        CLIENT_IDS,
        bodies(compile_message(api.request, version)),
        INSTANCE_IDS if has_instance_id else st.none(),
        st.sampled_from(Layout) if has_instance_id else st.none(),
    )


def responses(api: Api, version: int) -> st.SearchStrategy[Sample]:
    return st.builds(
        lambda number, body: Sample(
            write_response(SCHEMAS, api.key, version, number, body), paired=(api.key, version)
        ),
        CORRELATION_IDS,
        bodies(compile_message(api.response, version)),
    )


@st.composite
def damaged(draw: st.DrawFn, samples: st.SearchStrategy[Sample]) -> Sample:
    """A sample with bytes changed, removed or inserted, false lengths among them, or cut short."""
    sample = draw(samples)
    frame = bytearray(sample.frame)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(frame)))
        frame[at : at + draw(st.integers(0, 5))] = draw(st.binary(max_size=2) | FALSE_LENGTHS)
    frame = frame[: draw(st.integers(0, len(frame)) | st.just(len(frame)))]
    paired = sample.paired if draw(st.integers(0, 5)) else draw(st.tuples(KEYS, VERSIONS))
    return Sample(bytes(frame), draw(st.booleans()), paired)
