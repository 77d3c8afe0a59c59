"""The panels on the feeders: the fate of the packets and bytes that pass a broker."""

from __future__ import annotations

from dashboards import panels, queries
from dashboards.panels import AMBER, GREEN, RED
from dashboards.thresholds import LOST_SHARE

NO_FEEDER = "no feeder is scraped"
SHED = "shed"


def dropped() -> panels.Panel:
    """Return the panel on dropped packets."""
    return panels.stat_panel(
        "Packets dropped",
        "Packets that the kernel dropped because the feeder did not keep up; what follows is undecided.",
        {"dropped packets": queries.DROPPED_PACKETS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=8,
        empty=NO_FEEDER,
    )


def opaque() -> panels.Panel:
    """Return the panel on connections that cannot be read."""
    return panels.stat_panel(
        "Connections that are not Kafka",
        "Connections to the watched ports, over the range, that carry TLS or another protocol. What "
        "they carry is not judged.",
        {"not Kafka": queries.OPAQUE_CONNECTIONS},
        unit=panels.COUNT,
        steps=[(0, GREEN), (1, AMBER)],
        span=8,
        empty=NO_FEEDER,
    )


def payload() -> panels.Panel:
    """Return the panel on the fate of every byte."""
    return panels.graph_panel(
        "Captured bytes by fate",
        "TCP payload that was framed, skipped for a reason, or lost, which means not captured.",
        {"{{fate}}": queries.BYTES_BY_FATE},
        unit=panels.BYTES_PER_SECOND,
        span=12,
        empty=NO_FEEDER,
    )


def ports() -> panels.Panel:
    """Return the panel on what each port carries."""
    return panels.graph_panel(
        "Captured bytes by port",
        "TCP payload of each watched port that was framed, or skipped because it is TLS or another protocol.",
        {"{{port}} {{fate}}": queries.BYTES_BY_PORT},
        unit=panels.BYTES_PER_SECOND,
        span=8,
        empty=NO_FEEDER,
    )


def tls() -> panels.Panel:
    """Return the panel on TLS connections: which are read, and why others are not."""
    return panels.graph_panel(
        "TLS connections by outcome",
        "TLS connections over the range, of feeders with a key log: read, or why not: no key, a cipher suite "
        "that cannot be read, a handshake that was not captured, record numbers lost with lost bytes.",
        {"{{outcome}}": queries.TLS_CONNECTIONS_BY_OUTCOME},
        unit=panels.COUNT,
        span=8,
        empty="no feeder has a key log",
    )


def missed() -> panels.Panel:
    """Return the panel on feeders that miss bytes."""
    graph = panels.graph_panel(
        "Bytes not captured, by feeder",
        "The share of bytes that each feeder missed or did not publish, over 5 minutes.",
        {"{{instance}}": queries.LOST_BY_FEEDER},
        unit=panels.SHARE,
        span=12,
        empty="no feeder sees traffic",
    )
    return panels.with_limits(graph.max(1).axis_soft_max(2 * LOST_SHARE), (LOST_SHARE, RED))


def packets() -> panels.Panel:
    """Return the panel on the fate of every packet."""
    return panels.graph_panel(
        "Captured packets by fate",
        "Packets whose TCP segment was read, packets of the feeder's own connections, and packets that were "
        "skipped, by reason.",
        {"{{fate}}": queries.PACKETS_BY_FATE},
        unit=panels.PACKETS_PER_SECOND,
        span=8,
        empty=NO_FEEDER,
    )


def records() -> panels.Panel:
    """Return the panel on the fate of every record."""
    return panels.graph_panel(
        "Records by fate",
        "Records published, refused by Kafka, and shed because Kafka was slow or unreachable.",
        {"{{fate}}": queries.RECORDS_BY_FATE},
        unit=panels.RECORDS_PER_SECOND,
        span=8,
        empty=NO_FEEDER,
    )


def waiting() -> panels.Panel:
    """Return the panel on records that wait for Kafka."""
    graph = panels.graph_panel(
        "Waiting for Kafka",
        "Memory of the records that wait for Kafka, and bytes that were shed because the queue was full.",
        {"waiting": queries.WAITING_BYTES, SHED: queries.SHED_BYTES},
        unit=panels.BYTES,
        span=8,
        empty=NO_FEEDER,
    )
    return graph.override_by_name(SHED, panels.unit(panels.BYTES_PER_SECOND))
