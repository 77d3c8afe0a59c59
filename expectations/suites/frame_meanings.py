"""What each expectation on frames means, and what to do where it is not met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FAULT: Final = "Report it as a fault of kipwatch, with the partition and offset."
_FOREIGN: Final = "Another program writes to the topic: find it, and give kipwatch a topic of its own."

FRAME_MEANINGS: Final[Mapping[str, tuple[str, str]]] = {
    "columns-complete": ("The table has the columns that the suite knows.", _FAULT),
    "slice-not-empty": (
        "The topic has records.",
        "Start the feeder, and look at its log: it captures nothing, or cannot reach Kafka.",
    ),
    "connection-is-16-bytes": ("A connection is named by 16 bytes, here 32 hex digits.", _FOREIGN),
    "sequence-from-1": ("Records of a feeder's run are numbered from 1.", _FOREIGN),
    "record-unique": (
        "No two records have the same connection, run and sequence.",
        "A capture was fed twice, or a feeder was killed and read a file again: verdicts stay right.",
    ),
    "opened-once": (
        "A connection opens once in a run.",
        "A capture was fed twice; verdicts stay right.",
    ),
    "closed-once": (
        "A connection closes once in a run.",
        "A capture was fed twice; verdicts stay right.",
    ),
    "client-is-endpoint": ("The client is an address with a port.", _FOREIGN),
    "server-is-endpoint": ("The server is an address with a port.", _FOREIGN),
    "pairing-of-responses": (
        "Responses say how they were paired with a request, and nothing else does.",
        _FAULT,
    ),
    "closing-of-closed": ("A record of a connection's end says how it ended, and no other does.", _FAULT),
    "captured-at-nanoseconds": (
        "Capture times are nanoseconds since the epoch, and not in the future.",
        "Set the clock of the host that captures, with NTP.",
    ),
    "sequence-ascending": (
        "The records of a connection are in the order of their numbers.",
        "A capture was fed twice, or another program writes to the topic: what comes late is not judged.",
    ),
    "request-present": (
        "The request of each response is in the topic, if earlier records of its connection are.",
        "Records are missing: look for lost partitions. Verdicts on that time are incomplete.",
    ),
    "clock-not-set-back": (
        "The records of a connection are in the order of time.",
        "The clock of the host that captures was set back: use NTP that slews.",
    ),
    "captured-within-true-length": ("No more of a frame is kept than it had.", _FAULT),
    "header-version-exists": ("A header has one of the versions 0 to 3.", _FAULT),
    "correlation-id-read": ("A frame of 8 bytes or more has a correlation ID.", _FAULT),
    "matched-response-has-api": ("A response that is paired knows the API of its request.", _FAULT),
    "failure-has-reason": ("A frame that cannot be decoded says why.", _FAULT),
}
