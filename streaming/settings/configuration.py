"""The configuration: a TOML file, overridden by flags of the same names.

`Configuration` is every setting with its default, description and limits; flags, their help and the reference
of settings are made of it. Its tables are structures of their own. `configure` reads the file, then the
flags, and names line and key of a mistake (see `mistake`).
"""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import date
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, cast, get_type_hints

import msgspec

from decoders.frame.record import NAME_BYTES
from decoders.retention import KEPT_FOR
from decoders.wire.framing import MAX_FRAME
from expectations.rules.base.rule import Level
from streaming.log import Level as LogLevel
from streaming.metrics.labels import LABEL_LIMIT
from streaming.settings.address import HIGHEST_PORT, network_of
from streaming.settings.mistake import explain, read_toml
from streaming.user_error import UserError

MOST_MEBIBYTES: Final = 1 << 19
"""Of memory: librdkafka counts a queue in 32 bits."""
LONGEST_FRAME: Final = (1 << 31) - 1
"""Bytes: the length before a frame is a signed integer of 32 bits, and so is the setting of brokers."""
_HOUR: Final = 3600 * 1_000_000_000

Count = Annotated[int, msgspec.Meta(ge=1)]
_LISTS = frozenset({"interface", "keep", "ports", "spec", "tls_keylog"})
Port = Annotated[int, msgspec.Meta(ge=1, le=HIGHEST_PORT)]


class TopicSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How a topic is created. Kafka's own default applies to what is None.

    `retention_mebibytes` is per partition, as Kafka counts it.
    """

    partitions: Count
    retention_hours: Annotated[float, msgspec.Meta(gt=0)]
    retention_mebibytes: Count | None = None
    replication_factor: Count | None = None


class FramesTopicSettings(TopicSettings, frozen=True):
    """The topic of captured frames."""

    partitions: Count = 2
    retention_hours: Annotated[float, msgspec.Meta(gt=0)] = KEPT_FOR / _HOUR


class FindingsTopicSettings(TopicSettings, frozen=True):
    """The topic of findings. Its hours count from the latest publication of a finding."""

    partitions: Count = 1
    retention_hours: Annotated[float, msgspec.Meta(gt=0)] = 30 * 24


class QuarantineTopicSettings(TopicSettings, frozen=True):
    """The topic of records that are no frames. Its records are as private as those of the frames topic."""

    partitions: Count = 1
    retention_hours: Annotated[float, msgspec.Meta(gt=0)] = 3 * 24
    retention_mebibytes: Count | None = 256


class Topics(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """All topics: the table [topics] of the configuration."""

    frames: FramesTopicSettings = FramesTopicSettings()
    findings: FindingsTopicSettings = FindingsTopicSettings()
    quarantine: QuarantineTopicSettings = QuarantineTopicSettings()


class Listener(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A broker listener: its name (by default its address), cluster and node, which no frame contains."""

    address: str
    name: str = ""
    cluster_id: str = ""
    node_id: int | None = None


class Exclude(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Connections that the feeder does not watch: of an address or network at either end, or of a client ID.

    The client ID may be a glob.
    """

    address: str = ""
    client_id: str = ""

    def __post_init__(self) -> None:
        """Refuse an invalid address, and anything but exactly one of the two fields."""
        if bool(self.address) == bool(self.client_id):
            raise ValueError("Expected either `address` or `client_id`")
        network_of(self.address or "::")


class Suppression(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Findings of a rule that are known and accepted, until and including a day.

    All given fields must match. `rule`, `client_software_name` and `client_id` may be globs; `client` and
    `broker` are networks in CIDR notation, or addresses with or without a port.
    """

    rule: str
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    until: date
    client_software_name: str | None = None
    client_id: str | None = None
    client: str | None = None
    broker: str | None = None


class MetricsTls(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Files in PEM form. With `client_ca`, pages are for clients with a certificate of that authority.

    /healthz and /readyz ask for none, since the probes of service managers have none.
    """

    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class Configuration(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Every setting, with its default. A flag's help is the setting's description."""

    bootstrap: Annotated[str, "Kafka's host:port for the topics"] = "127.0.0.1:9092"
    allow_watched_bootstrap: Annotated[
        bool, "true if the query may read from brokers whose ports the feeder watches"
    ] = False
    frames_topic: Annotated[str, "topic of the captured frames"] = "kipwatch.frames"
    findings_topic: Annotated[str, "topic of the findings"] = "kipwatch.findings"
    quarantine_topic: Annotated[str, "topic of records of the frames topic that cannot be read"] = (
        "kipwatch.quarantine"
    )
    interface: Annotated[list[str], "network interfaces to capture on, separated by commas"] = msgspec.field(
        default_factory=lambda: ["lo"]
    )
    ports: Annotated[list[Port], "broker ports to capture, separated by commas"] = msgspec.field(
        default_factory=lambda: [9092]
    )
    cluster: Annotated[str, "name of the watched cluster, at most 24 bytes"] = ""
    feeder: Annotated[str, "name of this feeder, at most 24 bytes"] = "feeder"
    metrics_address: Annotated[str, "where the application serves /metrics and a page to read"] = (
        "127.0.0.1:9108"
    )
    feeder_metrics_address: Annotated[str, "where the feeder serves /metrics"] = "127.0.0.1:9107"
    user: Annotated[str, "user to switch to when the capture is open, if started as root"] = ""
    ring_mebibytes: Annotated[
        int,
        msgspec.Meta(ge=2, le=MOST_MEBIBYTES),
        "MiB of captured packets that the kernel buffers per interface",
    ] = 64
    max_request_bytes: Annotated[
        int,
        msgspec.Meta(ge=1024, le=LONGEST_FRAME),
        "longest request that the brokers accept (socket.request.max.bytes)",
    ] = MAX_FRAME
    tls_keylog: Annotated[
        list[str], "key logs (NSS format) of brokers or clients, to decrypt TLS, separated by commas"
    ] = []
    queue_mebibytes: Annotated[
        int,
        msgspec.Meta(ge=1, le=MOST_MEBIBYTES),
        "MiB of records that may wait while Kafka is slow or unreachable",
    ] = 256
    block_milliseconds: Annotated[
        Count, "milliseconds after which the feeder sends frames that fill no block"
    ] = 100
    kafka: Annotated[
        dict[str, str | int | bool], "settings of kipwatch's own Kafka clients, by librdkafka's names"
    ] = {}
    checkpoint: Annotated[str, "folder of the query's checkpoint"] = "kipwatch-checkpoint"
    archive: Annotated[str, "folder of the archive's Parquet tables; if empty, none are written"] = ""
    owners: Annotated[str, "TOML file that says whose a client is; if empty, findings have no owner"] = ""
    policies: Annotated[
        str,
        "policies of your own, a file or a folder, by which the query validates samples of "
        "what it would archive; if empty, none",
    ] = ""
    buckets: Annotated[Count, "buckets of connections; fixed by the checkpoint"] = 16
    shuffle_partitions: Annotated[Count, "Spark's shuffle partitions; fixed by the checkpoint"] = 2
    trigger_seconds: Annotated[Count, "seconds between two micro-batches"] = 1
    label_limit: Annotated[
        Count,
        "maximum number of values of a metric label that comes from the wire; a tenth of it "
        "for the versions of each client software. Others are counted as other",
    ] = LABEL_LIMIT
    master: Annotated[str, "Spark's master; if empty, all cores of this machine, or that of spark-submit"] = (
        ""
    )
    spark: Annotated[dict[str, str], "further settings of Spark, by its own names"] = {}
    after_loss: Annotated[
        bool,
        "true to continue although frames after the checkpoint are lost; connections known "
        "by then count as interrupted",
    ] = False
    frames_per_batch: Annotated[Count, "maximum number of frames in a micro-batch"] = 1_000_000
    schemas: Annotated[
        str,
        "release to decode with: a kafka-clients jar, a table, or a folder of message files; "
        "if empty, the newest known release",
    ] = ""
    spec: Annotated[
        list[str], "readings of KIPs, such as kip1082=text, separated by commas; if empty, as released"
    ] = []
    keep: Annotated[
        list[Literal["principal"]],
        "what else is kept: principal, the names under which clients log in, never a secret",
    ] = []
    kubernetes: Annotated[
        bool, "true to name clients by the pods of the Kubernetes cluster that the feeder runs in"
    ] = False
    identities: Annotated[
        Literal["plain", "keyed-hash"],
        "how clients are named: plain, or as keyed-hash in the topic (addresses), state, "
        "findings and reports (addresses and IDs)",
    ] = "plain"
    identities_key: Annotated[str, "where the key of keyed-hash is: env:NAME or file:PATH"] = ""
    log_level: Annotated[LogLevel, "the lowest level that is logged: debug, info, warning or error"] = "info"
    topics: Topics = Topics()
    metrics_tls: MetricsTls = MetricsTls()
    exclude: list[Exclude] = []
    listener: list[Listener] = []
    disable: list[str] = []
    levels: dict[str, Level] = {}
    suppress: list[Suppression] = []

    @property
    def excluded_networks(self) -> list[IPv4Network | IPv6Network]:
        """The networks of `exclude`; an address is a network of its own."""
        return [network_of(each.address) for each in self.exclude if each.address]

    @property
    def excludes_client(self) -> Callable[[str], bool] | None:
        """Whether a client ID is one of `exclude`; None if none is."""
        globs = [each.client_id for each in self.exclude if each.client_id]
        matches = re.compile("|".join(map(fnmatch.translate, globs))).match
        return (lambda client_id: matches(client_id) is not None) if globs else None

    @property
    def keeps_principals(self) -> bool:
        """Whether the names under which clients log in are kept."""
        return "principal" in self.keep

    def __post_init__(self) -> None:
        """Refuse names that are too long for records."""
        for name in ("cluster", "feeder"):
            if len(getattr(self, name).encode()) > NAME_BYTES:
                raise ValueError(f"at most {NAME_BYTES} bytes are allowed - at `$.{name}`")


def add_flags(
    parser: argparse.ArgumentParser, names: Sequence[str], defaults: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Add `--config` and the flags of some settings; the flag of a list may be repeated.

    `defaults` says in words what a command uses in place of a setting's default.
    """
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file of settings, with the names of the flags and underscores; flags override it",
    )
    hints = get_type_hints(Configuration, include_extras=True)
    for name in names:
        described, default = description(hints[name]), defaults.get(name) or _default(name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            action="append" if name in _LISTS else "store",
            metavar="VALUE",
            help=f"{described} (default: {default})" if default else described,
        )


def description(hint: Any) -> str:
    """Return what the type of a setting says in words, "" for a table."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, str)), "")


def configure(
    flags: argparse.Namespace, names: Container[str] = Configuration.__struct_fields__
) -> Configuration:
    """Read the file named by `--config`, if any, and override it by the given flags.

    Of the flags only `names` are settings: a command may have another flag of a setting's name. Raises
    UserError if the file cannot be read, a key is unknown or a value is invalid.
    """
    path: Path | None = flags.config
    in_file = _read(path) if path else {}
    given = {
        name: _listed(name, value)
        for name, value in vars(flags).items()
        if name in names and value is not None
    }
    try:
        return msgspec.convert({**in_file, **given}, Configuration, strict=False)
    except msgspec.ValidationError as error:
        key, mistake = explain(error, {**in_file, **given}, Configuration)
        raise UserError(f"--{str(key[0]).replace('_', '-')}: {mistake}") from error


def _read(path: Path) -> dict[str, Any]:
    """Read the settings of a file. Raises UserError that names the line and the key."""
    return cast(
        dict[str, Any], msgspec.to_builtins(read_toml(path, Configuration, "the configuration", _listed))
    )


def _listed(name: str, value: Any) -> Any:
    """Return the list that is meant by one value, by a text with commas, or by several such texts."""
    if name not in _LISTS:
        return value
    texts = value if isinstance(value, list) else [value]
    parts = [part for text in texts for part in (text.split(",") if isinstance(text, str) else [text])]
    stripped = [part.strip() if isinstance(part, str) else part for part in parts]
    return [int(part) if name == "ports" and str(part).isdecimal() else part for part in stripped]


def _default(name: str) -> Any:
    value = getattr(Configuration(), name)
    return ",".join(map(str, value)) if isinstance(value, list) else value
