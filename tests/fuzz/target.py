"""The coverage-guided fuzz target: `python -m tests.fuzz.target FOUND CORPUS -max_total_time=60`.

The arguments are libFuzzer's. It exits 0 if every input kept its promises.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["decoders"]):
    from tests.fuzz.invariants import examine


def main() -> None:
    atheris.Setup(sys.argv, examine)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
