"""An object store that speaks S3 and checks signatures: versitygw over a folder, built from its Go module."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.e2e.standalone import start, wait_for

PROGRAM: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
BUCKET: Final = "kipwatch"
PORT: Final = 9000
"""Free at an address that nobody else uses; on loopback take another one."""
CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "kipwatch", "AWS_SECRET_ACCESS_KEY": "kipwatch-secret"}


def build_program(folder: Path) -> Path:
    environment = os.environ | {"GOBIN": str(folder)}
    subprocess.run(["go", "install", PROGRAM], env=environment, check=True, timeout=900)
    return folder / "versitygw"


def serve_bucket(
    stack: ExitStack, program: Path, host: str, folder: Path, port: int = PORT
) -> dict[str, str]:
    """Serve a bucket until the stack ends; return the settings by which Spark finds it."""
    (folder / "buckets" / BUCKET).mkdir(parents=True)
    access, secret = CREDENTIALS.values()
    serving = [str(program), "--port", f"{host}:{port}", "--access", access, "--secret", secret]
    start(stack, folder / "store.log", [*serving, "posix", str(folder / "buckets")])
    wait_for(folder / "store.log", "service listening on")
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://{host}:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
