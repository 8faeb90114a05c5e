"""Both engines on many random chips of several cores, in chunks whose results are saved.

    python tests/support/many_cores.py RESULTS [FIRST STOP]

RESULTS: a file with a line of JSON for each chunk; what it has already is not run again. The exit
status is 1 if a chip made the engines differ.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from support.cores_by_seed import run, same

CHUNK, ALL = 50, 10_000


def chunk(first: int) -> dict[str, object]:
    """Return what came of a chunk: alike, both standing still, and what differs."""
    found, differ = Counter[str](), list[str]()
    for seed in range(first, first + CHUNK):
        event, register = run(seed, "event"), run(seed, "register")
        if event is None or register is None:
            found["deadlock" if event is register else "differ"] += 1
            differ += [] if event is register else [f"{seed}: one engine finds a deadlock"]
            continue
        try:
            same(event, register)
            found["same"] += 1
        except AssertionError as error:
            found["differ"] += 1
            differ.append(f"{seed}: {error}")
    return {"first": first, **found, "differences": differ}


def main() -> int:
    """Run what is not there yet, and print the sum."""
    results = Path(sys.argv[1])
    first, stop = map(int, sys.argv[2:4] or (0, ALL))
    results.parent.mkdir(parents=True, exist_ok=True)
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    done = {json.loads(line)["first"]: json.loads(line) for line in lines}
    for at in range(first, stop, CHUNK):
        if at not in done:
            done[at] = chunk(at)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[at]) + "\n")
    total = Counter[str]()
    for each in done.values():
        total.update({key: each.get(key, 0) for key in ("same", "deadlock", "differ")})
    print(f"{CHUNK * len(done)} chips: " + ", ".join(f"{n} {what}" for what, n in total.items()))
    for each in done.values():
        for line in each["differences"]:
            print(line)
    return int(bool(total["differ"]))


if __name__ == "__main__":
    sys.exit(main())
