"""The start of the command line, from a checkout and from an installed wheel."""

from __future__ import annotations

import sys
from pathlib import Path

_INSTALLED = Path(__file__).parent


def main() -> int:
    """Run one command and return its exit status.

    A wheel holds our packages below this one, so that their names, such as `streaming`, collide with no
    others. Within our own processes they have the names that they have in the repository.
    """
    if (_INSTALLED / "streaming").is_dir():
        sys.path.insert(0, str(_INSTALLED))
    from streaming.commands.main import main as run  # noqa: PLC0415  # only now it can be found

    return run()


if __name__ == "__main__":
    sys.exit(main())
