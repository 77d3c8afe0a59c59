"""The bodies of ApiVersions requests, read as columns: a client may name other software in each of them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from decoders.codec.columnar.frames import DecodedFrames
from decoders.protocol import API_VERSIONS
from decoders.schema.registry import Schemas
from expectations.conversation.bodies import NO_NODE, SoftwareClaim
from expectations.conversation.columnar.found_column import FoundColumn

_COLUMNS: Final = {
    "software_name": "clientSoftwareName",
    "software_version": "clientSoftwareVersion",
    "software_cluster_id": "clusterId",
    "software_node_id": "nodeId",
}


def software_columns(schemas: Schemas) -> dict[str, list[str]]:
    """Return the fields to read as columns, in the order that `software_claims` expects.

    None are returned for schemas that lack one of them.
    """
    api = schemas.api(API_VERSIONS)
    known = {field.name for field in api.request.struct.fields} if api is not None else set()
    if api is None or not known.issuperset(_COLUMNS.values()):
        return {}
    return {name: [f"{api.request.name}.{field}"] for name, field in _COLUMNS.items()}


def software_claims(
    decoded: DecodedFrames, first_column: int, numbers: NDArray[np.int64]
) -> list[SoftwareClaim | None]:
    """Return the bodies of ApiVersions requests that were read whole and without remarks.

    None stands for those of versions that name no software. `first_column` is the number of the first column.
    """
    names, versions, clusters, nodes = (
        FoundColumn(decoded, first_column + column, numbers) for column in range(len(_COLUMNS))
    )
    return [
        _claim(name, versions.text(at) or "", clusters.text(at), nodes.number(at))
        if (name := names.text(at)) is not None
        else None
        for at in range(len(numbers))
    ]


def _claim(name: str, version: str, cluster_id: str | None, node_id: int | None) -> SoftwareClaim:
    return SoftwareClaim(name, version, cluster_id, NO_NODE if node_id is None else node_id)
