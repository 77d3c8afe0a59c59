"""Settings of kipwatch's topics, which apply when it creates them."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from decoders.retention import KEPT_FOR

_HOUR: Final = 3600 * 1_000_000_000

Count = Annotated[int, msgspec.Meta(ge=1)]


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
