"""The commands; see the package's docstring."""

from __future__ import annotations

import argparse
import json
import queue
import random
import statistics
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import tests.mutation as about

from .coverage_map import CoverageMap, make_map
from .mutants import KINDS, Mutant, mutants_of
from .tree import Tree
from .trial import try_mutant

PACKAGES = ["machine", "compiler", "isa", "layout", "hw", "bounds"]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
Row = dict[str, Any]


def all_mutants(tree: Tree, wanted: list[str]) -> list[Mutant]:
    """Return every mutant of these packages and files."""
    files = tree.files(wanted or PACKAGES)
    return [mutant for file in files for mutant in mutants_of(tree.sources / file, file)]


def drawn(tree: Tree, mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return a sample: a kind at random, then a mutant of it, so that constants do not prevail."""
    rng = random.Random(seed)
    by_kind = {kind: [m for m in mutants if m.kind == kind] for kind in KINDS}
    for group in by_kind.values():
        rng.shuffle(group)
    sample: list[Mutant] = []
    while len(sample) < number and any(by_kind.values()):
        mutant = by_kind[rng.choice([kind for kind in KINDS if by_kind[kind]])].pop()
        if mutant.is_python(tree.text(mutant.file)):
            sample.append(mutant)
    return sample


def rows_in(path: Path) -> list[Row]:
    """Return the results so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(tree: Tree, options: argparse.Namespace) -> None:
    """Try the drawn mutants that have no result yet."""
    done = {row["key"] for row in rows_in(options.results)}
    sample = drawn(tree, all_mutants(tree, options.what), options.number, options.seed)
    todo = [mutant for mutant in sample if mutant.key not in done]
    print(f"{len(sample)} mutants, {len(todo)} to try")
    known = CoverageMap.load(options.map)
    if not known.seconds:
        sys.exit(f"{options.map}: no map of tests; `python -m tests.mutation map` makes it")
    options.results.parent.mkdir(parents=True, exist_ok=True)
    lock, copies = Lock(), queue.SimpleQueue[Tree]()

    def one(mutant: Mutant) -> None:
        copy = copies.get()
        try:
            result = try_mutant(mutant, copy, known, options.limit)
        finally:
            copies.put(copy)
        row = {"key": mutant.key, **vars(mutant), "package": mutant.package, **vars(result)}
        with lock, options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
            print(f"{result.status:12} {result.seconds:6.1f} s  {mutant.key}", flush=True)

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            copies.put(tree.copied_to(Path(name).resolve() / str(number)))
        list(pool.map(one, todo))
    report(tree, options)


def report(tree: Tree, options: argparse.Namespace) -> None:
    """Print a line for each package, the time a mutant took, and the survivors."""
    reasons = equivalents()
    rows = rows_in(options.results)
    print(
        "| package | mutants | killed | equivalent | survived | score |\n|---|---|---|---|---|---|"
    )
    for package in [*dict.fromkeys(row["package"] for row in rows), "all"]:
        mine = [row for row in rows if package in ("all", row["package"])]
        counts = Counter(_fate(row, reasons) for row in mine)
        killed, open_ = counts["killed"], counts["survived"]
        score = f"{100 * killed / (killed + open_):.0f} %" if killed + open_ else "-"
        cells = (package, len(mine), killed, counts["equivalent"], open_, score)
        print(f"| {' | '.join(map(str, cells))} |")
    if rows:
        cost = statistics.median(row["processor_seconds"] for row in rows)
        print(f"\nmedian {cost:.0f} s of processor time per mutant")
    for row in rows:
        if _fate(row, reasons) == "survived":
            print(f"{row['status']} ({row['tests']} tests): {row['key']}")
    for file, function, _, before, after in stale(tree, reasons):
        print(f"equivalent.toml: no longer there: {file} {function}: {before} -> {after}")


def equivalents() -> dict[tuple[str, ...], str]:
    """Return the reasons of mutants that no test can notice."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])
    return {_note_key(note): note["reason"] for note in listed}


def stale(tree: Tree, reasons: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the notes whose mutant the tree no longer has."""
    files = sorted({file for file, *_ in reasons if (tree.sources / file).exists()})
    there = {_note_key(vars(m)) for m in all_mutants(tree, files)} if files else set()
    return [note for note in reasons if note not in there]


def _note_key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("file", "function", "text", "before", "after"))


def _fate(row: Row, reasons: dict[tuple[str, ...], str]) -> str:
    if row["status"] == "killed":
        return "killed"
    return "equivalent" if _note_key(row) in reasons else "survived"


def sites(tree: Tree, options: argparse.Namespace) -> None:
    """Print how many mutants there are, by package and kind."""
    mutants = all_mutants(tree, options.what)
    for package in dict.fromkeys(mutant.package for mutant in mutants):
        counts = Counter(m.kind for m in mutants if m.package == package)
        print(package, sum(counts.values()), dict(counts))


def make(tree: Tree, options: argparse.Namespace) -> None:
    """Make the map; for `map`, WHAT are parts of the names of test files."""
    make_map(tree, options.map, options.jobs, options.what, print)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation",
        description=about.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = {"map": make, "run": run, "sites": sites, "report": report}
    parser.add_argument("command", choices=commands)
    parser.add_argument("what", nargs="*", help="packages or files (map: parts of test files)")
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60, help="processor seconds per mutant")
    parser.add_argument("--results", type=Path, default=Path("out/mutation/results.jsonl"))
    parser.add_argument("--map", type=Path, default=Path("out/mutation/map"))
    parser.add_argument("--root", type=Path, default=Path())
    options = parser.parse_intermixed_args()
    commands[options.command](Tree.of(options.root.resolve()), options)


if __name__ == "__main__":
    main()
