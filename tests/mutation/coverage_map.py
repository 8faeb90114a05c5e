"""Which tests execute which lines: made once, one test file after the other, kept as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .mutants import Mutant
from .tree import Tree

PYTEST = ("-m", "pytest", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")
QUICK = "not slow and not rtl"


@dataclass
class CoverageMap:
    """Tests by line and by function, and the processor seconds of each test."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    functions: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    files: dict[str, dict[str, None]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> CoverageMap:
        """Return the map in a folder, one JSON file for each test file."""
        found = cls()
        for path in sorted(folder.glob("*.json")):
            for test, row in json.loads(path.read_text()).items():
                found.add(test, *row)
        return found

    def add(
        self, test: str, seconds: float, lines: dict[str, list[int]], names: dict[str, list[str]]
    ) -> None:
        """Take in what one test executed."""
        self.seconds[test] = seconds
        for file, numbers in lines.items():
            self.files.setdefault(file, {})[test] = None
            for number in numbers:
                self.lines.setdefault((file, number), []).append(test)
        for file, functions in names.items():
            for name in functions:
                self.functions.setdefault((file, name.replace(".<locals>", "")), []).append(test)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, the likeliest and cheapest first.

        They execute its line, or failing those its function; of what is at the level of a module
        or a class, those that execute anything in the file. First come those of its own package;
        then one test of each test function before the second of any; then the quicker one.
        """
        span = range(mutant.line, mutant.end_line + 1)
        by_line = dict.fromkeys(t for n in span for t in self.lines.get((mutant.file, n), ()))
        by_function = self.functions.get((mutant.file, mutant.function), [])
        in_file = [] if by_function else list(self.files.get(mutant.file, ()))
        tests: list[str] = []
        for group in (list(by_line), by_function, in_file):
            fresh = set(group) - set(tests)
            tests += self._ordered(fresh, mutant.package)
        return tests

    def _ordered(self, tests: set[str], package: str) -> list[str]:
        turns: dict[str, int] = {}
        keys: dict[str, tuple[bool, int, float, str]] = {}
        for test in sorted(tests, key=lambda t: (self.seconds[t], t)):
            function = test.split("[")[0]
            turns[function] = turns.get(function, -1) + 1
            keys[test] = (
                not test.startswith(f"tests/{package}/"), turns[function], self.seconds[test], test
            )  # fmt: skip
        return sorted(tests, key=keys.__getitem__)


def make_map(
    tree: Tree, folder: Path, jobs: int, only: list[str], say: Callable[[str], None]
) -> None:
    """Trace all test files that the folder does not have yet. only: parts of their names."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        copy = tree.copied_to(Path(name).resolve())
        paths = sorted((copy.root / "tests").rglob("test_*.py"))
        files = [path.relative_to(copy.root).as_posix() for path in paths]
        wanted = [f for f in files if not only or any(part in f for part in only)]

        def trace(file: str) -> None:
            target = folder / f"{file.replace('/', '.')}.json"
            if not target.exists():
                say(f"{file}: {_trace(copy, file, target.resolve())}")

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(trace, wanted))


def _trace(copy: Tree, file: str, target: Path) -> str:
    part = target.with_suffix(".part")
    plugin = ("-p", "mutation.plugin_trace", "-m", QUICK)
    done = subprocess.run(
        [sys.executable, *PYTEST, *plugin, file],
        cwd=copy.root,
        env=copy.environment(MUTATION_TRACE=str(part)),
        capture_output=True,
        text=True,
    )
    if not part.exists():
        return f"cannot be traced: {(done.stdout + done.stderr)[-300:]}"
    part.rename(target)
    return (done.stdout.splitlines() or ["nothing"])[-1]
