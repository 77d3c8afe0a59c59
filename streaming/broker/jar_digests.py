"""The recorded SHA-256 digests of the pinned jars, which fetched jars must have before the cache takes them.

Beside each `ivy.xml` lies an `ivy.sha256` as `sha256sum` writes it: a digest, two spaces and the jar's path.
`python -m streaming.broker.jar_digests FILE.xml` fetches the jars that a file pins and records their digests.
"""

import hashlib
import sys
import tempfile
from functools import partial
from pathlib import Path

from streaming.broker.ivy import retrieve
from streaming.user_error import UserError


def verify(home: Path, pins: Path) -> None:
    """Compare all jars of a folder with what is recorded beside the pins.

    Raises `UserError` if a jar differs, is missing, or is not recorded.
    """
    recorded, fetched = _recorded(pins), _digests(home)
    for name in sorted(recorded.keys() | fetched.keys()):
        if name not in fetched:
            raise UserError(f"{name} was not fetched although {_list_of(pins).name} records it; try again")
        if name not in recorded:
            raise UserError(
                f"{name} is not recorded in {_list_of(pins).name}: no jar of it is used; {_remedy(pins)}"
            )
        if recorded[name] != fetched[name]:
            raise UserError(
                f"{name} is not the recorded jar: its SHA-256 is {fetched[name]},"
                f" recorded is {recorded[name]}; no jar is used; ask who runs your repository or proxy"
            )


def record(pins: Path, home: Path) -> int:
    """Write the digests of a folder's jars beside the pins; return how many there are."""
    digests = _digests(home)
    _list_of(pins).write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    return len(digests)


def _list_of(pins: Path) -> Path:
    return pins.with_suffix(".sha256")


def _remedy(pins: Path) -> str:
    return f"record it: python -m streaming.broker.jar_digests {pins}"


def _recorded(pins: Path) -> dict[str, str]:
    try:
        lines = _list_of(pins).read_text().splitlines()
    except FileNotFoundError as error:
        raise UserError(f"{_list_of(pins)} is missing, so no jar can be verified; {_remedy(pins)}") from error
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _digests(home: Path) -> dict[str, str]:
    """Return the digest of each jar by its name below the folder, in the order of the names."""
    jars = sorted(home.glob("*/*.jar"))
    return {str(jar.relative_to(home)): _sha256(jar) for jar in jars}


def _sha256(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    """Fetch what each named file pins, and record its digests."""
    try:
        for pins in map(Path, sys.argv[1:]):
            with tempfile.TemporaryDirectory() as folder:
                home = Path(folder) / "jars"
                retrieve(pins, home, partial(print, flush=True))
                print(f"{record(pins, home)} digests in {_list_of(pins)}")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
