"""Is a mutant one small mistake, in its place, and are the tests that may notice it chosen?"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from mutation.coverage_map import CoverageMap, make_map
from mutation.mutants import KINDS, Mutant, mutants_of
from mutation.tree import Tree
from mutation.trial import is_compiled, try_mutant

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''\
"""A text with 1 < 2 in it."""
from functools import lru_cache


@lru_cache(maxsize=64)
def least(values: list[int], start: int = 3) -> int | None:
    """Return min(values) if start > 0."""
    é = min(values) if start < 4 and values else -start  # ü
    if not values:
        raise ValueError(f"{start + 1} of none")
    values.append(é - start)
    for value in values[start:]:
        é += value
    return (
        é
        * 2
    )
'''


@pytest.fixture
def mutants(tmp_path):
    path = tmp_path / "text.py"
    path.write_text(SOURCE, encoding="utf-8")
    return mutants_of(path, "text.py")


def test_every_mutant_is_python_and_another_program(mutants):
    trees = {ast.dump(ast.parse(mutant.applied(SOURCE))) for mutant in mutants}
    assert len(trees) == len(mutants) > 20
    assert ast.dump(ast.parse(SOURCE)) not in trees


def test_there_are_all_kinds(mutants):
    assert {mutant.kind for mutant in mutants} == set(KINDS)


def test_text_annotations_decorators_and_errors_are_left_alone(mutants):
    assert {mutant.line for mutant in mutants} == {6, 8, 9, 10, 11, 12, 13, 15, 16}
    assert [m.before for m in mutants if m.line == 6] == ["3", "3"]
    assert [(m.kind, m.after) for m in mutants if m.line == 10] == [("removal", "pass")]


@pytest.mark.parametrize(
    ("kind", "before", "line"),
    [
        ("comparison", "start < 4", "    é = min(values) if (start <= 4) and values else -start"),
        ("name", "min", "    é = max(values) if start < 4 and values else -start"),
        ("boolean", "start < 4 and values", "    é = min(values) if (start < 4 or values) else"),
        ("removal", "values.append(é - start)", "    pass"),
        ("off by one", "start", "    for value in values[(start + 1):]:"),
        ("operator", "é += value", "        é -= value"),
        ("operator", "é * 2", "        é // 2"),
    ],
)
def test_one_place_changes(mutants, kind, before, line):
    mutant = next(m for m in mutants if (m.kind, m.before) == (kind, before))
    text = mutant.applied(SOURCE)
    changed = text.splitlines()[mutant.line - 1 :]
    assert any(found.startswith(line) or line.strip() in found for found in changed[:1]), changed[0]
    assert text.splitlines()[: mutant.line - 1] == SOURCE.splitlines()[: mutant.line - 1]


def test_likely_and_cheap_tests_come_first():
    known = CoverageMap()
    on_line, elsewhere = {"isa/check.py": [7]}, {"isa/check.py": [9]}
    name = {"isa/check.py": ["check"]}
    known.add("tests/isa/test_a.py::slow", 9.0, on_line, name)
    known.add("tests/isa/test_a.py::quick[1]", 0.1, on_line, name)
    known.add("tests/isa/test_a.py::quick[2]", 0.2, on_line, name)
    known.add("tests/cli/test_main.py::quick", 0.1, on_line, name)
    known.add("tests/isa/test_a.py::other", 0.1, elsewhere, name)
    known.add("tests/isa/test_a.py::none", 0.1, {}, {})
    mutant = Mutant("isa/check.py", "check", "constant", 7, 0, 7, 1, "1", "1", "2")
    assert [test.split("::")[1] for test in known.tests_of(mutant)] == [
        "quick[1]", "slow", "quick[2]", "quick", "other",
    ]  # fmt: skip
    assert known.tests_of(mutant)[3] == "tests/cli/test_main.py::quick"


@pytest.mark.slow
def test_the_package_is_found_and_its_compiled_files():
    tree = Tree.of(ROOT)
    compiled = {f for f in tree.files(["machine"]) if is_compiled(tree, f)}
    assert {f for f in compiled if f.endswith("_numba.py")} == {
        f for f in tree.files(["machine"]) if f.endswith("_numba.py")
    }
    assert any(f.endswith("dram/steps.py") for f in compiled)
    assert not any(f.endswith("check.py") for f in compiled)


SMALL = {
    "pyproject.toml": '[project.scripts]\nsmall = "small.cli:main"\n',
    "lib/small/__init__.py": "",
    "lib/small/hw/least.py": """\
def least(a, b):
    return a if a < b else b


def count(stop):
    n = 0
    while n < stop:
        n += 1
    return n


def forgotten(n):
    return n + 1
""",
    "tests/hw/test_least.py": """\
from small.hw.least import count, least


def test_least():
    assert least(1, 2) == 1


def test_count():
    assert count(3) == 3
""",
}


@pytest.mark.slow
def test_mutants_of_a_small_package_are_killed_where_its_tests_look(tmp_path):
    """The package lies in a folder, as another tree may have it; nothing in the tree changes."""
    root = tmp_path / "tree"
    for name, text in SMALL.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    tree = Tree.of(root)
    assert tree.package == Path("lib/small")
    assert tree.files(["hw"]) == ["hw/least.py"]
    said = []
    make_map(tree, tmp_path / "map", 1, [], said.append)
    known = CoverageMap.load(tmp_path / "map")
    assert len(known.seconds) == 2, said
    copy = tree.copied_to(tmp_path / "copy")
    mutants = {m.key: m for m in mutants_of(tree.sources / "hw/least.py", "hw/least.py")}

    def tried(line, before, after):
        found = [
            m for m in mutants.values() if (m.line, m.before, m.after) == (line, before, after)
        ]
        result = try_mutant(found[0], copy, known, 60)
        return result.status, result.by

    assert tried(2, "a < b", "(not a < b)") == ("killed", "tests/hw/test_least.py::test_least")
    assert tried(2, "a < b", "(a <= b)") == ("survived", "")  # which it is: equivalent
    assert tried(8, "n += 1", "pass") == ("killed", "tests/hw/test_least.py::test_count")
    assert tried(13, "n + 1", "(n - 1)") == ("survived", "")  # no test calls it
    for name, text in SMALL.items():
        assert (root / name).read_text() == (copy.root / name).read_text() == text
