"""Installs one version of a client library into the user's cache, and says how its program is started."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from streaming.broker.jars import java
from streaming.user_error import UserError
from tests.clients.releases import jars_of
from tests.clients.table import FOLDER, Client

PATIENCE = 900.0
_TOOLS = {"python": (), "java": ("javac",), "go": ("go",), "node": ("node", "npm"), "rust": ("cargo",)}
_COMPLETE = "complete"
_AUTHORITY = FOLDER / "go" / "authority.go"
Command = list[str | Path]


class MissingError(Exception):
    """A client that this machine cannot run, with the reason."""


def installed(client: Client, version: str) -> Command:
    """Return the command of the client's program, which is installed first if the cache lacks it.

    Raises MissingError.
    """
    for tool in _TOOLS[client.language]:
        if shutil.which(tool) is None:
            raise MissingError(f"{tool} is not installed")
    home = _cache() / f"{client.folder}-{version}"
    complete, sources = home / _COMPLETE, _digest(client)
    if not complete.exists() or complete.read_text() != sources:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        _INSTALL[client.language](client, version, home)
        complete.write_text(sources)
    return _COMMAND[client.language](client, version, home)


def _digest(client: Client) -> str:
    """What is installed anew when it changes: sources that are compiled, and further packages."""
    names = ("*.go", "*.java", "*.rs")
    sources = [path for name in names for path in sorted((FOLDER / client.folder).glob(name))]
    sources += [_AUTHORITY] if client.language == "go" else []
    parts = [path.read_bytes() for path in sources] + [package.encode() for package in client.also]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kipwatch" / "clients"


def _run(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] = MappingProxyType({})
) -> None:
    whole = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False, env=whole
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{command[0]} failed: {lines[-1] if lines else done.returncode}")


def _install_python(client: Client, version: str, home: Path) -> None:
    _run([sys.executable, "-m", "venv", home], home)
    _run([home / "bin" / "pip", "install", "--quiet", f"{client.package}=={version}", *client.also], home)


def _python(client: Client, version: str, home: Path) -> Command:
    return [home / "bin" / "python", FOLDER / client.folder / "client.py"]


def _install_node(client: Client, version: str, home: Path) -> None:
    (home / "package.json").write_text('{"private": true}')
    # What has to be compiled finds the headers that came with node: no others are downloaded.
    headers = {"npm_config_nodedir": str(Path(shutil.which("node") or "").resolve().parents[1])}
    command = ["npm", "install", "--silent", f"{client.package}@{version}", *client.also]
    _run(command, home, client.building | headers)


def _node(client: Client, version: str, home: Path) -> Command:
    # The program is outside the folder, so it is told where modules are.
    return ["env", f"NODE_PATH={home / 'node_modules'}", "node", FOLDER / client.folder / "client.js"]


def _install_go(client: Client, version: str, home: Path) -> None:
    steps = client.steps_of(version, "99")
    for source in (FOLDER / client.folder).glob("*.go"):
        if source.name == "main.go" or source.stem.replace("_", "-") in steps:
            shutil.copy(source, home)
    shutil.copy(_AUTHORITY, home)
    _run(["go", "mod", "init", "client"], home)
    _run(["go", "get", f"{client.package}@v{version}", *client.also], home)
    _run(["go", "mod", "tidy"], home)
    _run(["go", "build", "-o", "client", "."], home)


def _go(client: Client, version: str, home: Path) -> Command:
    return [home / "client"]


def _install_rust(client: Client, version: str, home: Path) -> None:
    _run(["cargo", "init", "--quiet", "--bin", "--vcs", "none", "--name", "client"], home)
    shutil.copy(FOLDER / client.folder / "main.rs", home / "src")
    for package in (f"{client.package}@={version}", *client.also):
        name, _, features = package.partition("+")
        _run(["cargo", "add", "--quiet", name, "--features", features], home)
    _run(["cargo", "build", "--quiet"], home)


def _rust(client: Client, version: str, home: Path) -> Command:
    return [home / "target" / "debug" / "client"]


def _install_java(client: Client, version: str, home: Path) -> None:
    has_shares = "share" in client.steps_of(version, "99")
    own = sorted((FOLDER / client.folder).glob("*.java"))
    sources = [path for path in own if has_shares or path.stem != "ShareClient"]
    _run(["javac", "-nowarn", "-cp", _class_path(version), "-d", home, *sources], home)


def _java(client: Client, version: str, home: Path) -> Command:
    return [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{home}:{_class_path(version)}", "Client"]


def _class_path(version: str) -> str:
    try:
        return ":".join(map(str, jars_of(version)))
    except UserError as error:
        raise MissingError(str(error)) from error


_INSTALL = {
    "python": _install_python,
    "node": _install_node,
    "go": _install_go,
    "rust": _install_rust,
    "java": _install_java,
}
_COMMAND = {"python": _python, "node": _node, "go": _go, "rust": _rust, "java": _java}
