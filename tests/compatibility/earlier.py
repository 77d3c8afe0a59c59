"""A frames topic and a checkpoint as a version of kipwatch wrote them, in files."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path
from typing import Final

import msgspec

FOLDER: Final = Path(__file__).parent
TOPIC, CHECKPOINT, ABOUT = "topic.msgpack.xz", "checkpoint.tar.xz", "about.json"
BUCKETS: Final = 4
"""The number of buckets of each checkpoint."""
JUDGED_DAYS: Final = 6
"""The days of the week that the query had judged."""

Keyed = tuple[bytes, bytes]
_TOPIC: Final = msgspec.msgpack.Decoder(list[Keyed])


class About(msgspec.Struct, frozen=True):
    """What no other file says: records judged, version of the state, capture time of the last judged day."""

    judged: int
    state_version: int
    judged_until: int


class Earlier:
    """What one version wrote."""

    def __init__(self, version: str) -> None:
        self._folder = FOLDER / version
        self.about = msgspec.json.decode((self._folder / ABOUT).read_bytes(), type=About)

    def topic(self) -> list[Keyed]:
        """The records of the topic."""
        return _TOPIC.decode(lzma.decompress((self._folder / TOPIC).read_bytes()))

    def unpack_checkpoint(self, folder: Path) -> Path:
        """Make the folder of the checkpoint in another one: not at the path where it was made."""
        with tarfile.open(self._folder / CHECKPOINT) as archive:
            archive.extractall(folder, filter="data")
        return folder / "checkpoint"


def versions() -> list[str]:
    """The versions that are kept, in order."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{ABOUT}"))


def keep(version: str, topic: list[Keyed], checkpoint: Path, about: About) -> None:
    """Write what a version wrote."""
    folder = FOLDER / version
    folder.mkdir(exist_ok=True)
    (folder / TOPIC).write_bytes(lzma.compress(msgspec.msgpack.encode(topic)))
    with tarfile.open(folder / CHECKPOINT, "w:xz") as archive:
        archive.add(checkpoint, "checkpoint", filter=_anonymous)
    (folder / ABOUT).write_bytes(msgspec.json.encode(about) + b"\n")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
