"""Is a mutant noticed? One copy of the tree per worker, in which it is made, tried and undone."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .coverage_map import PYTEST, CoverageMap
from .mutants import Mutant
from .tree import Tree

SPENT = "processor seconds: "
"""What `plugin_select` prints before the cost of a run (it is loaded by pytest, not from here)."""
FIRST_SECONDS = 4.0
"""Of processor time that the first run may take; what is left of the tests follows in a second."""
TIMES, AT_LEAST = 10, 5.0
WALL_SECONDS = 900
"""A run that hangs without using the processor."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, survived, or not covered: no test executes its file."""

    status: str
    by: str
    tests: int
    seconds: float
    processor_seconds: float


def try_mutant(mutant: Mutant, copy: Tree, tests: CoverageMap, limit: float) -> Result:
    """Make the mutant in the copy, run its tests until one fails, and undo it."""
    begun = time.monotonic()
    path = copy.sources / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(original), encoding="utf-8")
    if is_compiled(copy, mutant.file):
        shutil.rmtree(copy.root / ".numba", ignore_errors=True)
    status, by, count, spent = "survived", "", 0, 0.0
    try:
        for part in _parts(tests.tests_of(mutant), tests, limit):
            count += len(part)
            by, seconds = _first_failure(copy, part, tests)
            spent += seconds
            if by:
                status = "killed"
                break
    finally:
        path.write_text(original, encoding="utf-8")
        if is_compiled(copy, mutant.file):
            shutil.rmtree(copy.root / ".numba", ignore_errors=True)
    if not count:
        status = "not covered"
    return Result(status, by, count, round(time.monotonic() - begun, 1), round(spent, 1))


def _parts(tests: list[str], known: CoverageMap, limit: float) -> Iterator[list[str]]:
    """Yield the tests of the first run and those of the second, together within the limit."""
    spent, first, second = 0.0, [], []
    for test in tests:
        seconds = known.seconds[test]
        if spent + seconds > limit and (first or second):
            continue
        (second if second or (spent + seconds > FIRST_SECONDS and first) else first).append(test)
        spent += seconds
    yield from filter(None, (first, second))


def _first_failure(copy: Tree, tests: list[str], known: CoverageMap) -> tuple[str, float]:
    """Return the first test that fails, "" if none does, and the processor seconds of the run."""
    listed = copy.root / ".mutation_tests.json"
    limits = [(test, max(AT_LEAST, TIMES * known.seconds[test])) for test in tests]
    listed.write_text(json.dumps(limits))
    files = dict.fromkeys(test.split("::")[0] for test in tests)
    command = [sys.executable, *PYTEST, "-x", "--tb=no", "-rfE", "-p", "mutation.plugin_select"]
    try:
        done = subprocess.run(
            [*command, *files], cwd=copy.root, env=copy.environment(MUTATION_TESTS=str(listed)),
            capture_output=True, text=True, timeout=WALL_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "a run that hangs", 0.0
    lines = done.stdout.splitlines()
    spent = sum(float(x.removeprefix(SPENT)) for x in lines if x.startswith(SPENT))
    if done.returncode == 0:
        return "", spent
    for line in lines:
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 1)[1].split(" - ")[0], spent
    return f"a run that cannot begin: {(done.stderr or done.stdout).strip()[-120:]}", spent


def is_compiled(tree: Tree, file: str) -> bool:
    """Return whether numba may keep a compiled form of the file, which outlives a change of it.

    So it is with files that import numba and with what those import.
    """
    known = {p.relative_to(tree.sources).as_posix(): p for p in tree.sources.rglob("*.py")}
    fresh = {name for name, path in known.items() if "import numba" in path.read_text()}
    reached: set[str] = set()
    while fresh:
        name = fresh.pop()
        reached.add(name)
        fresh |= (_imports(tree, known[name]) & known.keys()) - reached
    return file in reached


def _imports(tree: Tree, path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {m.replace(".", "/") for m in modules}
    prefix = f"{tree.package.name}/"
    return {f"{m.removeprefix(prefix)}.py" for m in found if m.startswith(prefix)}
