"""What several tests of deployment share: podman, with kipwatch's image built once."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.deploy.engine import PACKAGES, PROGRAMS, Podman
from tests.deploy.images import base


@pytest.fixture(scope="session")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Podman:
    """Podman, with the image `kipwatch`."""
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        pytest.skip(f"as root: apt-get install --no-install-recommends {PACKAGES}")
    folder = tmp_path_factory.mktemp("podman")
    podman = Podman(folder)
    podman.build(base(folder))
    return podman
