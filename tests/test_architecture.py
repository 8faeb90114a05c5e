"""Does each package import only what docs/architecture.md lets it? Read from the source by ast.

Imports inside functions count, those under TYPE_CHECKING for circles only.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "sim" / "systolic").rglob("*.py"))

# What each room may import of the package, besides itself, the rooms in it, and EVERYBODYS. A room
# without a row of its own obeys the row of the room it is in.
EVERYBODYS = {
    "array_distances",
    "arrays",
    "collector",
    "element_types",
    "engine_kind",
    "errors",
    "lazy",
    "progress",
    "reading",
    "spans",
    "writing",
}
PASSES = {"workload", "layout", "hw", "isa", "compiler.ir", "compiler.cost"}
ALLOWED: dict[str, set[str]] = {
    "array_distances": set(),
    "arrays": set(),
    "collector": set(),
    "element_types": set(),
    "engine_kind": set(),
    "errors": set(),
    "lazy": set(),
    "progress": set(),
    "reading": set(),
    "spans": set(),
    "writing": set(),
    "shipped": set(),
    "examples": {"shipped"},
    "layout": set(),
    "trace": set(),
    "hw": set(),
    "workload": {"layout"},
    "bounds": {"workload", "layout", "hw"},
    "isa": {"hw.spec", "hw.datatypes", "hw.functions", "hw.units"},
    "compiler": {"workload", "layout", "hw", "isa"},
    "compiler.ir": {"workload", "layout", "hw", "isa"},
    "compiler.cost": {"workload", "layout", "hw", "isa", "compiler.ir"},
    "compiler.lower": PASSES,
    "compiler.tile": PASSES,
    "compiler.place": PASSES,
    "compiler.schedule": PASSES | {"compiler.place"},
    "compiler.sync": PASSES,
    "compiler.places": {"layout"},
    "compiler.parts": PASSES
    | {
        "compiler.compiled", "compiler.streams", "compiler.sync", "compiler.plans",
        "compiler.schedule",
    },
    "compiler.streams": PASSES | {"compiler.places", "compiler.lower", "compiler.sync"},
    "machine": {"isa", "hw.spec", "hw.datatypes", "hw.units", "trace"},
    "machine.event": {
        "isa", "hw.spec", "hw.datatypes", "hw.units", "trace", "machine.values", "machine.memory",
        "machine.array_shape", "machine.spared",
    },
    "machine.register": {
        "isa", "hw.spec", "hw.datatypes", "hw.units", "trace", "machine.values", "machine.memory",
        "machine.array_shape",
    },
    "network": {"hw.spec"},
    "network.event": {"hw.spec", "network.network", "network.traffic", "network.outcome",
                      "network.deadlock", "network.queues", "network.spec"},
    "network.stepped": {"network.network", "network.traffic", "network.outcome",
                        "network.deadlock", "network.spec"},
    "config": {"hw.spec", "hw.datatypes", "hw.units", "workload", "shipped"},
    "critical_path": {"isa", "hw", "trace"},
    "report": {"trace", "hw", "layout"},
    "sweep": {"compiler", "config", "hw.spec", "isa", "report.sweeps", "run", "workload"},
}  # fmt: skip
EVERYTHING = ("run", "cli", "pytest_plugin", "__main__", "__init__")
ONLY_IN = {
    "simpy": "machine.event", "matplotlib": "report", "typer": "cli", "pytest": "pytest_plugin",
}  # fmt: skip
MAY_PRINT = ("cli", "report.summary.table")


def module_name(path: Path) -> str:
    """Return the dotted name below the package, ``hw.spec``; an __init__ is its package."""
    parts = path.relative_to(ROOT / "sim" / "systolic").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "__init__"


MODULES = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def nodes(tree: ast.AST, *, functions: bool) -> Iterator[ast.AST]:
    """Yield nodes, without TYPE_CHECKING blocks, and without function bodies unless asked."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        if functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from nodes(child, functions=functions)


def imports(name: str, *, functions: bool = True) -> Iterator[str]:
    """Yield the modules a module imports, as written; ``from a import b`` gives a.b if a module."""
    for node in nodes(MODULES[name], functions=functions):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = inner.removeprefix("systolic.") in MODULES
                yield inner if is_module else str(node.module)


def imported(name: str) -> Iterator[str]:
    """Yield all modules of the package that a module imports, those for type checkers too."""
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("systolic"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix("systolic.")
                yield inner if inner in MODULES else str(node.module).removeprefix("systolic.")


def belongs(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def of_package(name: str, *, functions: bool = True) -> set[str]:
    found = imports(name, functions=functions)
    return {module.removeprefix("systolic.") for module in found if module.startswith("systolic.")}


def row_of(name: str) -> str:
    """Return the row of ALLOWED that a module obeys: that of the innermost room which has one."""
    parts = name.split(".")
    return next(room for n in range(len(parts), 0, -1) if (room := ".".join(parts[:n])) in ALLOWED)


@pytest.mark.parametrize("name", [n for n in MODULES if n.split(".")[0] not in EVERYTHING])
def test_import_table(name: str) -> None:
    room = row_of(name)
    allowed = {*ALLOWED[room], room, *EVERYBODYS}
    wrong = {m for m in of_package(name) if not any(belongs(m, a) for a in allowed)}
    assert not wrong, f"{name} may not import {sorted(wrong)}"


@pytest.mark.parametrize(("library", "package"), ONLY_IN.items())
def test_only_one_package_imports(library: str, package: str) -> None:
    users = {name for name in MODULES if any(belongs(m, library) for m in imports(name))}
    wrong = {name for name in users if not name.startswith(package)}
    assert not wrong, f"only {package} may import {library}, not {sorted(wrong)}"


def test_the_machine_never_imports_the_closed_formulas() -> None:
    machine = [name for name in MODULES if belongs(name, "machine")]
    assert not [n for n in machine if any(belongs(m, "hw.formulas") for m in of_package(n))]


@pytest.mark.parametrize("name", ["run.verdict", "run.expected", "run.structural_zeros"])
def test_judges_know_nothing_of_the_compiler_but_the_arithmetic_of_a_program(name: str) -> None:
    known = {module for module in imported(name) if belongs(module, "compiler")}
    assert known <= {"compiler", "compiler.arithmetic"}


def test_no_import_circle() -> None:
    """Imports inside functions and under TYPE_CHECKING count too: they hide a circle, no more."""
    graph = {name: {*imported(name)} & MODULES.keys() - {name} for name in MODULES}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


@pytest.mark.parametrize("name", [n for n in MODULES if not n.startswith(MAY_PRINT)])
def test_nothing_is_printed(name: str) -> None:
    for node in nodes(MODULES[name], functions=True):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called != "print", f"{name}, line {node.lineno}"
            assert not called.startswith(("sys.stdout", "sys.stderr")), f"{name}"


def test_matplotlib_and_numba_are_imported_only_where_used() -> None:
    late = (
        "cli.main", "cli.run_file", "cli.run_sweep", "cli.sweep_explore", "cli.trace",
        "run.execute", "run.pins", "machine.simulate",
    )  # fmt: skip
    for name in late:
        loaded, fresh = set(), {name}
        while fresh:
            module = fresh.pop()
            loaded.add(module)
            fresh |= {m for m in of_package(module, functions=False) if m in MODULES} - loaded
        heavy = [m for m in loaded for library in imports(m, functions=False)
                 if library.split(".")[0] in ("matplotlib", "numba")]  # fmt: skip
        assert not heavy, f"importing {name} loads matplotlib or numba through {heavy}"


@pytest.mark.parametrize("package", ["config", "isa", "layout"])
def test_names_that_are_loaded_late_are_those_that_type_checkers_see(package: str) -> None:
    found = importlib.import_module(f"systolic.{package}")
    (block,) = (n for n in MODULES[package].body if isinstance(n, ast.If))
    seen = {
        (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    late = {
        (f"systolic.{package}.{module}", name)
        for module, names in found.LAZY.items()
        for name in names.split()
    }
    assert late == seen
    for module, name in late:
        assert getattr(found, name) is getattr(importlib.import_module(module), name)


def test_only_the_command_line_names_its_options() -> None:
    """Messages of the library must make sense to a Python caller: none holds an option."""
    option = re.compile(r"(?<![\w-])--[a-z]")
    for name, tree in MODULES.items():
        if name.startswith("cli") or name == "pytest_plugin":  # which has an option of its own
            continue
        documentation = {id(text) for text in docstrings(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                comment = node.value.lstrip().startswith("#")  # in a file that is written
                if id(node) not in documentation and not comment:
                    assert not option.search(node.value), f"{name}, line {node.lineno}"


def docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield texts that are statements: docstrings, also those of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


MOST_POSITIONAL = 5


def functions_of(tree: ast.AST) -> Iterator[tuple[str, ast.arguments]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield getattr(node, "name", "lambda"), node.args


@pytest.mark.parametrize("name", MODULES)
def test_at_most_five_arguments_are_given_by_place(name: str) -> None:
    """A sixth argument has a keyword, or belongs with others in a value that has a name."""
    for function, arguments in functions_of(MODULES[name]):
        places = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
        places = places[1:] if places[:1] in (["self"], ["cls"]) else places
        assert len(places) <= MOST_POSITIONAL, f"{name}: {function}({', '.join(places)})"


# Objects of libraries, which have no method for it.
SET_FROM_OUTSIDE = {
    "cli.screen": {"sys.stdout", "sys.stderr"},
    "run": {"sys.modules[__name__].__class__"},
    "machine.event.ticks": {"event._ok", "event._value"},
}


def fields_of(tree: ast.AST) -> set[str]:
    """Return the names of the fields of all classes of a module."""
    found = set()
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        found |= {n.target.id for n in kind.body if isinstance(n, ast.AnnAssign)
                  and isinstance(n.target, ast.Name)}  # fmt: skip
        found |= {n.attr for n in ast.walk(kind) if isinstance(n, ast.Attribute)
                  and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == "self"}  # fmt: skip
    return found


@pytest.mark.parametrize("name", MODULES)
def test_no_state_is_set_on_an_object_from_outside(name: str) -> None:
    """Fields belong to the object, or to the file of its class; those of `self.part` to part."""
    allowed, own = SET_FROM_OUTSIDE.get(name, set()), fields_of(MODULES[name])
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            text, of = ast.unparse(node), ast.unparse(node.value)
            is_part = bool(re.fullmatch(r"self(\.\w+)+", of))
            known = of == "self" or text in allowed or (node.attr in own and not is_part)
            assert known, f"{name}, line {node.lineno}: {text} is set from outside"


def names_of_types(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes of a module, and its public names of types, such as aliases."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (t.id for t in targets if isinstance(t, ast.Name) and not t.id.isupper())


def engine_room(name: str) -> tuple[str, str]:
    """Return the engine of a module, and its room in the engine; "" if it is in none."""
    parts = name.split(".")
    return (parts[1], ".".join(parts[2:-1])) if parts[0] == "machine" else ("", name)


def test_no_name_of_a_type_stands_twice() -> None:
    """Only the engines' twins share a name: `Unit` of each, in the same room of either."""
    found: dict[str, list[str]] = {}
    for module, tree in MODULES.items():
        for name in names_of_types(tree):
            if name[0].isupper():
                found.setdefault(name, []).append(module)
    for name, modules in found.items():
        rooms = sorted(engine_room(module) for module in modules)
        twins = [engine for engine, _ in rooms] == ["event", "register"]
        are_twins = twins and rooms[0][1] == rooms[1][1]
        assert len(modules) == 1 or are_twins, f"{name} is defined in {', '.join(modules)}"
