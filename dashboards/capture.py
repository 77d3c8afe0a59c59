"""The panels on the feeders: what becomes of the packets and bytes that pass a broker."""

from __future__ import annotations

from dashboards import panels, queries
from dashboards.panels import AMBER, GREEN

NO_FEEDER = "no feeder is scraped"
SHED = "shed"


def dropped() -> panels.Panel:
    """What the kernel could not hand over."""
    return panels.stat_panel(
        "Packets dropped",
        "Packets that the kernel dropped because the feeder did not keep up; what follows is undecided.",
        {"dropped packets": queries.DROPPED_PACKETS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
        empty=NO_FEEDER,
    )


def opaque() -> panels.Panel:
    """What cannot be read."""
    return panels.stat_panel(
        "Connections that are not Kafka",
        "Connections to the watched ports, over the range, that carry TLS or another protocol. What "
        "passes on them is not judged.",
        {"not Kafka": queries.OPAQUE_CONNECTIONS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=6,
        empty=NO_FEEDER,
    )


def payload() -> panels.Panel:
    """What became of every byte."""
    return panels.graph_panel(
        "Captured bytes by fate",
        "TCP payload that was framed, skipped for a reason, or lost, that is, passed without being captured.",
        {"{{fate}}": queries.BYTES_BY_FATE},
        unit=panels.BYTES_PER_SECOND,
        span=12,
        empty=NO_FEEDER,
    )


def missed() -> panels.Panel:
    """Which feeder does not see everything."""
    return panels.graph_panel(
        "Bytes not captured, by feeder",
        "The share of bytes that each feeder missed or did not publish, over 5 minutes.",
        {"{{instance}}": queries.LOST_BY_FEEDER},
        unit=panels.SHARE,
        span=12,
        empty="no feeder sees traffic",
    )


def packets() -> panels.Panel:
    """What became of every packet."""
    return panels.graph_panel(
        "Captured packets by fate",
        "Packets whose TCP segment was read, packets of the feeder's own connections, and packets that were "
        "passed over, by reason.",
        {"{{fate}}": queries.PACKETS_BY_FATE},
        unit=panels.PER_SECOND,
        span=8,
        empty=NO_FEEDER,
    )


def records() -> panels.Panel:
    """What became of what was to be published."""
    return panels.graph_panel(
        "Records by fate",
        "What the feeder published, what Kafka refused, and what was shed because Kafka was slow or away.",
        {"{{fate}}": queries.RECORDS_BY_FATE},
        unit=panels.PER_SECOND,
        span=8,
        empty=NO_FEEDER,
    )


def waiting() -> panels.Panel:
    """What Kafka has not taken yet."""
    graph = panels.graph_panel(
        "Waiting for Kafka",
        "Memory of the records that Kafka has not taken yet, and bytes that were shed for want of room.",
        {"waiting": queries.WAITING_BYTES, SHED: queries.SHED_BYTES},
        unit=panels.BYTES,
        span=8,
        empty=NO_FEEDER,
    )
    return graph.override_by_name(SHED, panels.column(panels.BYTES_PER_SECOND))
