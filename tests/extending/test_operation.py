"""The recipe "An operation" of docs/extending.md, followed in a copy of the package.

The toy is `scale`: every element times a factor, by an instruction of an engine. It touches the
three files that the recipe names, and must then work everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]

SCALE = '''"""Scale: every element times a factor."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from systolic.workload.operations.cast import convert
from systolic.workload.operations.row import ONE_SHAPE, Attributes, Row, check_gives


@dataclass(frozen=True, slots=True)
class ScaleAttributes(Attributes):
    factor: Annotated[float, Field(description="what every element is multiplied by")]


def _check(shapes, out, attributes):
    (source,) = shapes
    check_gives(source, source.element_type, source.dims, out)


def _exact(arrays, out, attributes):
    return arrays[0].astype("f8") * attributes.factor


def _reference(arrays, out, attributes, rules):
    return convert(arrays[0].astype("f4") * attributes.factor, out.dtype)


SCALE = Row(
    operands=ONE_SHAPE,
    attributes=ScaleAttributes,
    check=_check,
    reference=_reference,
    exact=_exact,
)
'''
MEANING = {
    "from systolic.workload.operations.row import": (
        "from systolic.workload.operations.scale import SCALE\n"
    ),
    '    "cast": CAST,': '    "scale": SCALE,\n',
}
LOWERING = {
    "from systolic.compiler.lower.moves.permute": (
        "from systolic.compiler.ir.lane_step import LaneStep\n"
        "from systolic.isa.instruction import TensorScalar\n"
        "from systolic.workload.operations.scale import ScaleAttributes\n"
    ),
    "Lower = ": (
        "def scaled(op):\n"
        "    factor = op.attributes_as(ScaleAttributes).factor\n"
        '    return LaneStep(TensorScalar, {"op": "multiply", "scalar": factor})\n\n\n'
    ),
    '    "cast": lower_cast': '    "scale": each_element(scaled),\n',
}
HEAD = f'chip = "{ROOT}/configs/chips/ideal_4x4.toml"\n'
ALONE = (
    HEAD + '[workload]\nop = "scale"\nshape = "f32[6,5]"\nout = "f32[6,5]"\nfactor = -2.5\n'
    'home = "dram"\n'
)
IN_A_GRAPH = (
    HEAD + '[workload.tensors.x]\nshape = "f32[6,5]"\n'
    '[[workload.ops]]\nop = "scale"\nname = "y"\ninputs = ["x"]\nout = "f32[6,5]"\nfactor = 3.0\n'
    '[[workload.ops]]\nop = "transpose"\nname = "z"\ninputs = ["y"]\nout = "f32[5,6]"\n'
)
COMMANDS = {
    "event": ("run", "alone.toml", "--no-plots", "--json", "--out", "event"),
    "register": (
        "run", "alone.toml", "--no-plots", "--json", "--engine", "register", "--out", "register",
    ),
    "graph": ("run", "graph.toml", "--no-plots", "--json", "--out", "graph"),
    "table": ("run", "graph.toml", "--no-plots", "--out", "graph"),
    "nodes": ("compile", "graph.toml", "--after", "graph"),
    "program": ("compile", "graph.toml"),
    "schema": ("schema", "run"),
    "missing": ("run", "missing.toml"),
}  # fmt: skip
SCRIPT = """
import json, sys
from support.command_line import run_command
print(json.dumps({name: run_command(*words) for name, words in json.load(sys.stdin).items()}))
"""


def insert_before(path: Path, lines: dict[str, str]) -> None:
    """Put text before the line of a file that begins with a key, for each key."""
    text = path.read_text(encoding="utf-8")
    for start, new in lines.items():
        at = text.index(f"\n{start}") + 1
        text = text[:at] + new + text[at:]
    path.write_text(text, encoding="utf-8")


def in_the_copy(
    folder: Path, script: str, words: object = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with the package's copy in `folder`."""
    path = os.pathsep.join([str(folder / "sim"), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        input=json.dumps(words),
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a copy of the package in which the recipe has been followed."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "sim" / "systolic"
    shutil.copytree(
        ROOT / "sim" / "systolic", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    operations = package / "workload" / "operations"
    (operations / "scale.py").write_text(SCALE, encoding="utf-8")
    insert_before(operations / "table.py", MEANING)
    insert_before(package / "compiler" / "lower" / "table.py", LOWERING)
    return folder


@pytest.fixture(scope="module")
def found(copy: Path) -> dict[str, Any]:
    """Return status, output and errors of every command."""
    (copy / "alone.toml").write_text(ALONE, encoding="utf-8")
    (copy / "graph.toml").write_text(IN_A_GRAPH, encoding="utf-8")
    (copy / "missing.toml").write_text(ALONE.replace("factor = -2.5\n", ""), encoding="utf-8")
    done = in_the_copy(copy, SCRIPT, COMMANDS)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def test_both_engines_give_what_numpy_says(found: dict[str, Any], copy: Path) -> None:
    summaries = {}
    for engine in ("event", "register"):
        status, out, err = found[engine]
        assert (status, err) == (0, "")
        summaries[engine] = json.loads(out)
        assert summaries[engine]["values"]["equal"] is True
        result = np.load(copy / engine / "result.npy")
        assert np.array_equal(result, -2.5 * np.arange(1, 31, dtype="f4").reshape(6, 5))
    assert summaries["event"]["cycles"] == summaries["register"]["cycles"]
    assert summaries["event"]["operations"][0]["bound"]["why"] != "nothing need be busy"


def test_in_a_graph_it_has_a_row_of_the_summary(found: dict[str, Any]) -> None:
    status, out, err = found["graph"]
    assert (status, err) == (0, "")
    summary = json.loads(out)
    assert summary["values"]["equal"] is True
    assert [op["op"] for op in summary["operations"]] == ["scale", "transpose"]
    assert "scale" in found["table"][1]


def test_the_compiler_shows_it(found: dict[str, Any]) -> None:
    assert " = convert(x." in found["nodes"][1]
    assert "TensorScalar source=" in found["program"][1]


def test_run_files_know_it(found: dict[str, Any]) -> None:
    table = json.loads(found["schema"][1])["$defs"]["WorkloadTable"]["properties"]
    assert "scale" in table["op"]["anyOf"][0]["enum"]
    assert table["factor"]["description"] == "scale: what every element is multiplied by"
    assert found["missing"][2].endswith(
        'missing.toml: [workload] factor: is missing; op = "scale" needs it\n'
    )


def test_a_missing_row_fails_at_import(copy: Path, tmp_path: Path) -> None:
    shutil.copytree(copy / "sim", tmp_path / "sim")
    shutil.copy(
        ROOT / "sim/systolic/compiler/lower/table.py",
        tmp_path / "sim/systolic/compiler/lower/table.py",
    )
    done = in_the_copy(tmp_path, "import systolic.compiler")
    assert done.returncode != 0
    assert "operations without a row in both tables: ['scale']" in done.stderr
