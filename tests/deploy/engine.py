"""A container engine without a registry: podman, with images of Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streaming.broker.jars import jars
from tests.deploy.images import CACHE, LOADED
from tests.deploy.test_wheel import PIP
from tests.repository.tree import copy_files, files

PROGRAMS: Final = ("mmdebstrap", "podman")
PACKAGES: Final = "mmdebstrap podman netavark aardvark-dns iptables runc"
MADE: Final = "localhost/debian"
DEBIAN: Final = "docker.io/library/debian:bookworm-slim"
COMPOSE: Final = "podman-compose==1.6.0"
"""Debian's version is too old for `network_mode: service:NAME`."""
KAFKA: Final = "/usr/local/bin/kafka"
_KAFKA_SCRIPT: Final = r"""#!/bin/sh
# As Kafka's own image: KAFKA_A_B=c is the property a.b=c.
set -eu
env | sed -n 's/^KAFKA_\([A-Z_]*\)=/\1 /p' | while read -r name value; do
    echo "$(echo "$name" | tr A-Z_ a-z.)=$value"
done > /tmp/server.properties
echo log.dirs=/tmp/kafka >> /tmp/server.properties
export CLASSPATH='/opt/kafka/libs/*'
java kafka.tools.StorageTool format --cluster-id 4L6g3nShT-eMCtK--X86sw --config /tmp/server.properties
exec java -Xmx512m kafka.Kafka /tmp/server.properties
"""


class Podman:
    """Commands of podman, with limits that this machine has."""

    def __init__(self, folder: Path) -> None:
        settings = folder / "containers.conf"
        # Its default is beyond what an unprivileged machine may set.
        settings.write_text('[containers]\ndefault_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]\n')
        self.environment = os.environ | {"CONTAINERS_CONF": str(settings)}
        self.folder = folder

    def run(self, *arguments: str | Path, seconds: float = 120, cwd: Path | None = None) -> str:
        """Run `podman ARGUMENTS`. Returns its output."""
        return self.call(["podman", *map(str, arguments)], seconds, cwd)

    def call(self, command: Sequence[str], seconds: float, cwd: Path | None = None) -> str:
        """Run a program that calls podman; it must succeed."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def build(self, debian: Path) -> None:
        """Build kipwatch's image by its Dockerfile, on a Debian that reaches what this machine reaches."""
        self.run("import", "--quiet", debian, MADE, seconds=300)
        self._derive_debian()
        sources = self.folder / "sources"
        copy_files(sources, files())
        flags = ["--pull=never", "--network=host", "--file", "deploy/image/Dockerfile", "--tag", "kipwatch"]
        self.run("build", *flags, ".", seconds=1500, cwd=sources)

    def _derive_debian(self) -> None:
        """Add the settings of package registries and the cached jars of this machine."""
        root = self.folder / DEBIAN.replace("/", "-") / "root"
        cached = jars("connector")[0].parents[1]
        shutil.copytree(cached, root / CACHE[1:] / "kipwatch/jars" / cached.name)
        for name in filter(os.path.exists, LOADED):
            (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, root / name[1:])
        self.derive(DEBIAN, [f"FROM {MADE}", "COPY root /"])

    def compose(self, file: Path, *arguments: str) -> None:
        """Run `podman-compose` on a file."""
        installed = self.folder / "compose"
        if not installed.exists():
            self.call([*PIP, "install", "--target", str(installed), COMPOSE], 120)
        command = [sys.executable, str(installed / "podman_compose.py"), "--file", str(file), *arguments]
        self.call(command, 300)

    def derive(self, name: str, lines: Sequence[str], **files: str) -> None:
        """Build an image by the lines of a Dockerfile, beside which files of these texts are put."""
        folder = self.folder / name.replace("/", "-")
        folder.mkdir(exist_ok=True)
        for file, text in {"Dockerfile": "\n".join(lines), **files}.items():
            (folder / file).write_text(text)
        flags = ["--quiet", "--pull=never", "--network=host", "--tag", name]
        self.run("build", *flags, folder, seconds=300)


def add_kafka(debian: Path) -> None:
    """Put the broker's jars into a Debian that has Java."""
    with tarfile.open(debian, "a") as archive:
        for jar in jars("broker"):
            archive.add(jar, f"opt/kafka/libs/{jar.name}")
        script = debian.with_name("kafka")
        script.write_text(_KAFKA_SCRIPT)
        script.chmod(0o755)
        archive.add(script, KAFKA[1:])
