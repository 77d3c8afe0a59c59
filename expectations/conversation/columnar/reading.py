"""Reads frames as columns, and decides which of them the scalar code must decode.

For most frames the columns hold all that a statement needs: header, failure, error codes. A frame whose body
rules read, or that is malformed or cut, is left to the scalar code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.acknowledgement import UNDECIDED, expected_responses, produce_layouts
from decoders.codec.columnar.frames import DecodedFrames, Frames
from decoders.codec.columnar.reader import ColumnarReader
from decoders.frame.record import Kind
from decoders.protocol import API_VERSIONS, HEARTBEAT_APIS
from decoders.schema.registry import Schemas
from decoders.wire.columnar.frames import FrameBatch
from expectations.conversation.bodies import Body
from expectations.conversation.body_reader import REQUESTS_WITH_BODY, RESPONSES_WITH_BODY
from expectations.conversation.columnar import traits as frame_traits
from expectations.conversation.columnar.heartbeats import heartbeat_bodies, heartbeat_columns
from expectations.conversation.columnar.member_requests import member_columns, member_places
from expectations.conversation.columnar.software_claims import software_claims, software_columns
from expectations.conversation.error_codes import error_code_paths, has_tagged_error_code


class ReadFrames(NamedTuple):
    """The columns of a batch of frames.

    `traits` (frame_traits.TRAITS) has a row per frame. It is all that a statement needs for frames that are
    `plain` (bool), and, together with `bodies`, for those `with_body` (bool): heartbeats and their responses,
    and ApiVersions requests. The scalar code decodes all others. `member_places` say which member sends a
    plain request, see `member_requests.py`.
    """

    decoded: DecodedFrames
    traits: NDArray[np.void]
    plain: NDArray[np.bool_]
    with_body: NDArray[np.bool_]
    heartbeat_column: int
    software_column: int
    member_places: NDArray[np.int64]

    def bodies(self, numbers: NDArray[np.int64]) -> list[Body | None]:
        """Return the bodies of frames that are `with_body`."""
        is_claim = self.decoded.heads["api_key"][numbers] == API_VERSIONS
        claims = iter(software_claims(self.decoded, self.software_column, numbers[is_claim]))
        others = numbers[~is_claim]
        error_codes = self.traits["error_codes"][others, 0]
        heartbeats = iter(heartbeat_bodies(self.decoded, self.heartbeat_column, error_codes, others))
        return [next(claims if each else heartbeats) for each in is_claim.tolist()]


class ObservationReader:
    """Reads the columns that statements are made of."""

    def __init__(self, schemas: Schemas) -> None:
        wanted = _error_columns(schemas)
        self._error_columns = len(wanted)
        wanted |= member_columns(schemas)
        self._heartbeat_column = len(wanted)
        wanted |= heartbeat_columns(schemas)
        self._software_column, software = len(wanted), software_columns(schemas)
        self._reads_software = bool(software)
        self._reader = ColumnarReader(schemas, wanted | software)
        self._produce_layouts = produce_layouts(schemas)
        tagged = [api.key for api in schemas.apis if has_tagged_error_code(api.response.struct)]
        self._responses_with_body = np.array([*RESPONSES_WITH_BODY, *tagged], np.int16)

    def read(self, batch: FrameBatch) -> ReadFrames:
        """Read all frames of a batch."""
        columns = batch.frames
        frames = Frames(
            batch.data,
            columns.starts,
            columns.lengths.astype(np.int32),
            columns.true_lengths > columns.lengths,
            columns.kinds == Kind.REQUEST,
            columns.paired_api_keys,
            columns.paired_api_versions,
        )
        decoded = self._reader.read(frames)
        traits = self._traits(batch, decoded)
        whole = self._whole(decoded, traits)
        keys, is_request = decoded.heads["api_key"], decoded.frames.is_request
        has_body = np.where(
            is_request, np.isin(keys, REQUESTS_WITH_BODY), np.isin(keys, self._responses_with_body)
        )
        # A response with one error code has it at the top level of its body.
        with_body = whole & decoded.heads["has_body"] & (traits["error_code_count"] <= 1)
        names_software = is_request & (keys == API_VERSIONS) & self._reads_software
        with_body &= np.isin(keys, list(HEARTBEAT_APIS)) | names_software
        body_columns = self._heartbeat_column, self._software_column
        places = member_places(decoded, self._error_columns)
        return ReadFrames(decoded, traits, whole & ~has_body, with_body, *body_columns, places)

    def _traits(self, batch: FrameBatch, decoded: DecodedFrames) -> NDArray[np.void]:
        columns, heads = batch.frames, decoded.heads
        traits = np.zeros(len(decoded.frames), frame_traits.TRAITS)
        for name in ("api_key", "api_version", "client_id_length", "header_version", "layout", "has_body"):
            traits[name] = heads[name]
        traits["kind"], traits["direction"] = columns.kinds, columns.directions
        traits["pairing"], traits["flags"] = columns.pairings, columns.flags
        traits["is_cut"] = decoded.frames.is_cut
        traits["has_instance_id"] = heads["client_instance_id_begin"] >= 0
        traits["expects_response"] = expected_responses(decoded, self._produce_layouts)
        frame_traits.gather_error_codes(decoded.found, self._error_columns, traits)
        return traits

    def _whole(self, decoded: DecodedFrames, traits: NDArray[np.void]) -> NDArray[np.bool_]:
        """Return which frames were read whole, apart from bodies that rules read."""
        heads = decoded.heads
        whole = heads["known"] & heads["has_correlation_id"] & (heads["failure_reason"] < 0)
        whole &= traits["error_code_count"] <= frame_traits.MOST_ERROR_CODES
        whole &= traits["expects_response"] != UNDECIDED
        whole &= ~heads["has_unknown_header_tags"]
        whole[decoded.remarks[:, 0]] = False
        return whole  # type: ignore[no-any-return]


def _error_columns(schemas: Schemas) -> dict[str, list[str]]:
    """List the error code fields of all responses by column; a column holds one field of each message."""
    wanted: dict[str, list[str]] = {}
    for api in schemas.apis:
        for number, path in enumerate(error_code_paths(api.response.struct)):
            wanted.setdefault(f"error_code_{number}", []).append(f"{api.response.name}.{path}")
    return wanted
