"""The pinned counts of the present timing version: `make pins` writes them by this script.

It refuses to write counts that moved unless `TIMING_VERSION` (`systolic.sweep.key`) has gone up.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from systolic.sweep.key import TIMING_VERSION

PINS = Path(__file__).resolve().parents[2] / "configs" / "pinned_cycles.toml"
COUNTS = Path(__file__).with_suffix(".csv")
HEADER = "timing_version,"


def pinned() -> dict[str, int]:
    """Return the cycles of every pinned run by name."""
    found = tomllib.loads(PINS.read_text(encoding="utf-8"))
    return {name: pin["cycles"] for name, pin in found.items()}


def recorded() -> tuple[int, dict[str, int]]:
    """Return the version whose counts were written last, and these counts."""
    head, *lines = COUNTS.read_text(encoding="utf-8").splitlines()
    pairs = (line.rsplit(",", 1) for line in lines)
    return int(head.removeprefix(HEADER)), {name: int(count) for name, count in pairs}


def fault(version: int, counts: dict[str, int], before: tuple[int, dict[str, int]]) -> str:
    """Return what is wrong with counts under a version, after those written last; "" if nothing."""
    old, known = before
    moved = [name for name in known if name in counts and counts[name] != known[name]]
    if moved and version <= old:
        return (
            f"{len(moved)} pinned counts moved ({moved[0]}: {known[moved[0]]} -> "
            f"{counts[moved[0]]}): raise TIMING_VERSION in systolic/sweep/key.py above {old}, then "
            "`make pins`"
        )
    return ""


def main() -> None:
    """Write the counts, unless they moved under one version."""
    counts = pinned()
    if COUNTS.exists() and (text := fault(TIMING_VERSION, counts, recorded())):
        sys.exit(text)
    lines = [f"{HEADER}{TIMING_VERSION}", *(f"{name},{count}" for name, count in counts.items())]
    COUNTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
