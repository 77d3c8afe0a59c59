"""What a step of a bucket adds to."""

from __future__ import annotations

from typing import NamedTuple

from streaming.judging.archive_count import ArchiveCount
from streaming.judging.server_responses import ServerResponses
from streaming.judging.tally import Tally
from streaming.state.bucket import Bucket


class Into(NamedTuple):
    """What a step adds to."""

    bucket: Bucket
    responses: ServerResponses
    tally: Tally
    counted: ArchiveCount | None
