"""Where a Produce request says how it is to be acknowledged, by version, for `following` to look there.

`decoders.codec.acknowledgement` says what the answer means. Told here are only the layouts of versions
that the release knows; any other request is left to that file.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.program import compile_message
from decoders.schema.registry import Api, Schemas

PRODUCE: Final = 0
UNKNOWN_LAYOUT: Final = 0
PLAIN: Final = 1
"""Behind the client ID and the transactional ID."""
FLEXIBLE: Final = 2
"""Behind the client ID, the header's tagged fields and the transactional ID, a compact string."""

_HEADER = ["requestApiKey", "requestApiVersion", "correlationId", "clientId"]


def produce_layouts(schemas: Schemas) -> NDArray[np.int64]:
    """Give the layout of every version from 0 on."""
    api = schemas.api(PRODUCE)
    if api is None or api.release_versions is None:
        return np.zeros(1, np.int64)
    versions = range(api.release_versions.highest + 1)
    return np.array([_layout(schemas, api, version) for version in versions], np.int64)


def _layout(schemas: Schemas, api: Api, version: int) -> int:
    header = compile_message(schemas.request_header, api.request_header_version(version))
    if version not in api.versions or [field.name for field in header.fields] != _HEADER:
        return UNKNOWN_LAYOUT
    body = compile_message(api.request, version)
    names = [field.name for field in body.fields]
    if names[:2] != ["transactionalId", "acks"] or body.flexible != header.flexible:
        return UNKNOWN_LAYOUT
    return FLEXIBLE if body.flexible else PLAIN
