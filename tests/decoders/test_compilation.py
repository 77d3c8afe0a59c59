"""Machine code is cached between processes, and compiled anew if a source changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import decoders
from decoders import compilation
from decoders.compilation import sources_of

PACKAGE = Path(decoders.__file__).parent
CALL = (
    "import numpy as np; from decoders import memory; none = np.zeros(0, np.int64);"
    "memory.gathered(np.zeros(0, np.uint8), none, none); print(*memory._gather.stats.cache_hits.values())"
)


def hits(cache: Path, program: str = CALL, folder: Path = PACKAGE.parent, **variables: str) -> str:
    """The output of a process in a folder, with this cache: 1 if it found the function compiled."""
    return run(cache, program, folder, **variables).stdout.strip()


def run(
    cache: Path, program: str, folder: Path = PACKAGE.parent, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **variables}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.mark.slow
def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert [hits(tmp_path) for _ in range(2)] == ["", "1"]


@pytest.mark.slow
def test_a_copy_in_another_folder_compiles_nothing(tmp_path: Path) -> None:
    """Executors of a cluster unpack the packages to a new folder at each start."""
    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        shutil.copytree(PACKAGE, folder / "decoders", ignore=shutil.ignore_patterns("__pycache__"))
    where = "import decoders; print(decoders.__path__[0], end=' ');"
    found = [hits(tmp_path / "cache", where + CALL, folder) for folder in folders]
    assert found == [str(folders[0] / "decoders"), f"{folders[1] / 'decoders'} 1"]


@pytest.mark.slow
def test_without_a_writable_cache_each_process_compiles(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert hits(file) == hits(file) == ""


@pytest.mark.slow
def test_a_new_cache_begins_with_what_the_users_cache_has(tmp_path: Path) -> None:
    """A container has a prepared cache in its image, and a folder for its own."""
    users, own = tmp_path / "users", tmp_path / "own"
    assert hits(users) == ""
    prepared = {path.name for path in (users / "kipwatch").rglob("*.nb?")}
    assert [hits(users, NUMBA_CACHE_DIR=str(own)) for _ in range(2)] == ["1", "1"]
    assert {path.name for path in own.rglob("*.nb?")} == prepared
    assert not [path for path in own.rglob("tmp*") if path.is_dir()]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to another user, which needs root")
def test_a_new_cache_takes_nothing_from_a_folder_of_another_user(tmp_path: Path) -> None:
    users = tmp_path / "users"
    assert hits(users) == ""
    is_of_another(users)
    assert hits(users, NUMBA_CACHE_DIR=str(tmp_path / "own")) == ""


def others_may_write(cache: Path) -> None:
    cache.chmod(0o777)


def a_group_may_write(cache: Path) -> None:
    os.chown(cache, -1, 1)
    cache.chmod(0o775)


def is_of_another(cache: Path) -> None:
    os.chown(cache, 1, 1)


def is_planted(cache: Path) -> None:
    """In a folder where all may write, as in /tmp, somebody else was first."""
    cache.chmod(0o1777)
    (cache / "kipwatch").mkdir()
    os.chown(cache / "kipwatch", 1, 1)


def is_planted_as_link(cache: Path) -> None:
    cache.chmod(0o1777)
    (cache / "kipwatch").symlink_to(cache.parent)


SHARED = [others_may_write, a_group_may_write, is_of_another, is_planted, is_planted_as_link]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to another user, which needs root")
@pytest.mark.parametrize("share", SHARED)
def test_a_folder_where_others_may_put_code_is_refused(tmp_path: Path, share: Callable[[Path], None]) -> None:
    share(tmp_path)
    with pytest.raises(PermissionError, match=str(tmp_path)):
        compilation._made(tmp_path, "digest")


def test_a_folder_of_ones_own_in_one_that_all_may_write_to_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert compilation._made(tmp_path, "digest") == tmp_path / "kipwatch" / "numba" / "digest"


def test_a_process_says_once_that_it_keeps_no_code_in_a_shared_folder(tmp_path: Path) -> None:
    others_may_write(tmp_path)
    program = "from decoders.codec.columnar import kernel; print(kernel.read_frames.stats.cache_path)"
    ran = run(tmp_path, program)
    assert not Path(ran.stdout.strip()).is_relative_to(tmp_path)
    assert ran.stderr.count(f"no compiled code is kept in {tmp_path}: others may write to {tmp_path}") == 1


def test_a_function_depends_on_all_that_its_file_imports() -> None:
    codec = PACKAGE / "codec" / "columnar"
    sources = sources_of(codec / "kernel.py")
    assert {codec / "walk.py", codec / "tape.py", codec / "frames.py", PACKAGE / "compilation.py"} <= {
        *sources
    }
    assert codec / "reader.py" not in sources


def test_a_function_of_another_package_depends_on_both() -> None:
    capture = PACKAGE.parent / "streaming" / "feeder" / "capture.py"
    assert {capture, PACKAGE / "compilation.py"} <= {*sources_of(capture)}


@pytest.mark.slow
def test_a_changed_source_is_compiled_anew(tmp_path: Path) -> None:
    """The function itself is in a file that does not change."""
    package = tmp_path / "decoders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "compilation.py").write_text((PACKAGE / "compilation.py").read_text())
    (package / "calling.py").write_text(
        "import numba\n"
        "from decoders.compilation import compiled\n"
        "from decoders.called import added\n"
        "@compiled(numba.int64(numba.int64))\n"
        "def call(number):\n"
        "    return added(number)\n"
    )
    called = (
        "from decoders.compilation import inlined\n@inlined\ndef added(number):\n    return number + {}\n"
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import decoders.calling as c; print(c.call(1))"
    )
    seen = []
    # Of different length: Python tells sources apart by their size and the second of their last change.
    for summand in (1, 20):
        (package / "called.py").write_text(called.format(summand))
        seen.append(hits(tmp_path / "cache", program))
    assert seen == ["2", "21"]


def test_linear_algebra_is_not_imported_but_can_be() -> None:
    program = "import decoders.memory, sys; print('scipy.linalg' in sys.modules); import scipy.linalg"
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, cwd=PACKAGE.parent, text=True) == "False\n"
