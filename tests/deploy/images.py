"""Images without Docker: Debian's packages, the install script in a chroot, and runc to run them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from streaming.broker.jars import jars
from tests.repository.tree import ROOT, copy_files, files

CACHE: Final = "/var/cache/kipwatch"
USER: Final = 10001
LOADED: Final = ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
"""Settings of package registries, if this machine has these files."""


def base(folder: Path, *packages: str) -> Path:
    """Make a small Debian 12 with packages, as an archive."""
    made = folder / f"{'-'.join(['debian', *packages])}.tar"
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        f"--include={','.join(['ca-certificates', *packages])}",
        "bookworm",
        str(made),
    ]
    subprocess.run(command, check=True, timeout=600)
    return made


def build(debian: Path, part: str, root: Path) -> None:
    """Make the root file system of an image as the Dockerfile does, with its install script."""
    root.mkdir()
    subprocess.run(["tar", "--extract", "--file", debian, "--directory", root], check=True, timeout=120)
    sources = root / "tmp/kipwatch"
    copy_files(sources, _admitted())
    for name in filter(os.path.exists, LOADED):
        (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(name, root / name[1:])
    if part == "application":
        _lend_jars(root)
    script = f"cd /tmp/kipwatch && sh deploy/image/install.sh {part}"
    with _devices(root):
        subprocess.run(["chroot", root, "sh", "-c", script], check=True, timeout=1200)
    shutil.rmtree(sources)


def _admitted() -> list[Path]:
    """Select the files that Docker would send, by the ignore file beside the Dockerfile."""
    lines = (ROOT / "deploy/image/Dockerfile.dockerignore").read_text().splitlines()
    names = [line[1:] for line in lines if line.startswith("!")]
    return [
        path
        for path in files()
        if any(str(path) == name or str(path).startswith(f"{name}/") for name in names)
    ]


def _lend_jars(root: Path) -> None:
    """Put the jars of this user's cache into the image: a chroot may not reach their repository."""
    cached = jars("connector")[0].parents[1]
    shutil.copytree(cached, root / CACHE[1:] / "kipwatch/jars" / cached.name)


@contextmanager
def _devices(root: Path) -> Iterator[None]:
    with ExitStack() as mounted:
        for kind, inside in (("/proc", "proc"), ("/dev", "dev")):
            subprocess.run(["mount", "--bind", kind, root / inside], check=True)
            mounted.callback(subprocess.run, ["umount", "--lazy", str(root / inside)], check=True)
        yield


class Container:
    """A command in an image, run by runc with a read-only root and without new privileges."""

    def __init__(self, root: Path, folder: Path, command: Sequence[str], **options: Any) -> None:
        """`options`: user, capabilities, own_network, and mounts: path inside → path here."""
        folder.mkdir()
        subprocess.run(["runc", "spec"], cwd=folder, check=True)
        spec = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(_changed(spec, root, command, **options)))
        self.name, self.log = f"kipwatch-{os.getpid()}-{folder.name}", folder / "log"
        with self.log.open("wb") as output:
            run = ["runc", "run", self.name]
            self.process = subprocess.Popen(run, cwd=folder, stdout=output, stderr=subprocess.STDOUT)

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["runc", "delete", "--force", self.name], check=False, capture_output=True)
        self.process.wait(30)

    def check_running(self) -> None:
        """Fail with the end of the log if the command has ended."""
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command in the container."""
        inside = ["runc", "exec", self.name, *command]
        return subprocess.run(inside, capture_output=True, text=True, check=False, timeout=60)

    def stop(self, seconds: float) -> int:
        """Send SIGTERM, as Docker and Kubernetes do. Returns the exit status."""
        subprocess.run(["runc", "kill", self.name, "TERM"], check=True)
        return self.process.wait(seconds)


def _changed(
    spec: dict[str, Any],
    root: Path,
    command: Sequence[str],
    *,
    user: int = USER,
    capabilities: Sequence[str] = (),
    own_network: bool = True,
    mounts: dict[str, Path] | None = None,
) -> dict[str, Any]:
    process = spec["process"]
    process |= {"terminal": False, "args": ["kipwatch", *command], "noNewPrivileges": True, "cwd": "/tmp"}
    process["user"] = {"uid": user, "gid": user}
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "XDG_CACHE_HOME": CACHE,
        "NUMBA_CACHE_DIR": "/tmp/compiled",
    }
    process["env"] = [f"{name}={value}" for name, value in variables.items()]
    kinds = ("bounding", "effective", "permitted")
    process["capabilities"] = {kind: list(capabilities) for kind in kinds}
    process.pop("rlimits", None)
    spec["root"] = {"path": str(root), "readonly": True}
    scratch = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]}
    bound = [
        {"destination": inside, "type": "bind", "source": str(here), "options": ["rbind", "rw"]}
        for inside, here in (mounts or {}).items()
    ]
    # As container engines give it to each container.
    names = {"destination": "/etc/hosts", "type": "bind", "source": "/etc/hosts", "options": ["rbind", "ro"]}
    spec["mounts"] += [scratch, names, *bound]
    if not own_network:
        linux = spec["linux"]
        linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "network"]
    return spec
