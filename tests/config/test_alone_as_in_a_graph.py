"""Is the value right of an operation alone and in a graph: is the same taken, and refused?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import systolic
from systolic.config import load_run
from systolic.element_types import ELEMENT_TYPES
from systolic.errors import SystolicError
from systolic.run.result import Result
from systolic.workload import OPERATIONS

# Types of the machine and of the contract, as docs/layouts.md has them; not asked of the code.
NOT_OF_THE_MACHINE = {
    "s16", "u64", "f64", "c64", "c128", "f4e2m1fn", "f8e3m4", "f8e4m3",
    "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu",
}  # fmt: skip
CHIPS = ("ideal_4x4", "neuroncore_v2")
HOMES = ("state_buffer", "dram")


def both(
    folder: Path, chip: str, home: str, op: str, inputs: dict[str, str], out: str, more: str = ""
) -> tuple[Result | str, Result | str]:
    """Return what becomes of an operation alone and in a graph: a result or an error."""
    head = f'chip = "{chip}"\n[workload]\nhome = "{home}"\ndata = "random"\n'
    keys = "".join(f'{name} = "{shape}"\n' for name, shape in inputs.items())
    alone = head + f'op = "{op}"\nout = "{out}"\n{keys}{more}\n'
    names = [operand.name for operand in OPERATIONS[op].operands]
    shapes = dict(zip(names, inputs.values(), strict=True))
    tensors = "".join(f'[workload.tensors.{n}]\nshape = "{s}"\n' for n, s in shapes.items())
    listed = ", ".join(f'"{name}"' for name in names)
    graph = head + tensors
    graph += (
        f'[[workload.ops]]\nop = "{op}"\nname = "y"\ninputs = [{listed}]\nout = "{out}"\n{more}'
    )
    return run(folder / "alone.toml", alone), run(folder / "graph.toml", graph)


def run(path: Path, text: str) -> Result | str:
    path.write_text(text, encoding="utf-8")
    try:
        return systolic.run(load_run(path))
    except SystolicError as error:
        return str(error)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("kind", ELEMENT_TYPES)
def test_a_transpose_of_every_type(tmp_path: Path, chip: str, home: str, kind: str) -> None:
    alone, graph = both(
        tmp_path, chip, home, "transpose", {"shape": f"{kind}[12,8]"}, f"{kind}[8,12]"
    )
    if kind in NOT_OF_THE_MACHINE:
        for found in (alone, graph):
            assert isinstance(found, str)
            assert f'tensor "source": the machine has no type {kind} (known: ' in found or (
                "holds no real numbers" in found
            )
        return
    assert isinstance(alone, Result)
    assert isinstance(graph, Result)
    assert alone.summary["cycles"] == graph.summary["cycles"]
    for found in (alone, graph):
        (name,) = found.outputs
        assert found.outputs[name].shape == (8, 12)
        assert found.summary["values"]["equal"] is True


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize(
    ("source", "weights", "out"),
    [
        ("s8[1,4,4,8]", "s8[3,3,8,8]", "s32[1,2,2,8]"),
        ("bf16[1,4,4,8]", "bf16[3,3,8,8]", "f32[1,2,2,8]"),
        ("f32[1,4,4,8]", "f32[3,3,8,8]", "bf16[1,2,2,8]"),
    ],
)
def test_a_convolution_into_another_type(
    tmp_path: Path, home: str, source: str, weights: str, out: str
) -> None:
    alone, graph = both(
        tmp_path, "ideal_128x128", home, "conv2d", {"source": source, "weights": weights}, out
    )
    assert isinstance(alone, Result)
    assert isinstance(graph, Result)
    assert alone.summary["cycles"] == graph.summary["cycles"]
    x, w = (load_run(tmp_path / "alone.toml").load_inputs()[n] for n in ("source", "weights"))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), axis=(1, 2))
    wanted = np.einsum("nyxcij,ijcf->nyxf", windows, w.astype(np.float64))
    tolerance = 2**-7 if out.startswith("bf16") else 1e-5
    np.testing.assert_allclose(
        alone.outputs["out"].astype(np.float64), wanted, tolerance, tolerance * 40
    )


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("chip", CHIPS)
def test_halves_of_words_are_moved_and_not_calculated_with(
    tmp_path: Path, chip: str, home: str
) -> None:
    for op, given, out in (
        ("relayout", "u16[12,8]", "u16[12,8]{0,1}"),
        ("reshape", "u16[12,8]", "u16[6,16]"),
        ("cast", "u16[12,8]", "s32[12,8]"),
    ):
        for found in both(tmp_path, chip, home, op, {"shape": given}, out):
            assert isinstance(found, Result), (op, found)
            assert found.summary["values"]["equal"] is True
    for found in both(
        tmp_path, chip, home, "activation", {"shape": "u16[4,4]"}, "u16[4,4]", 'function = "ramp"'
    ):
        assert isinstance(found, str)
        assert "activation takes no u16; transpose, relayout, reshape, cast do" in found


def test_what_does_not_fit_is_refused_alike(tmp_path: Path) -> None:
    for out in ("s8[1,4,4,8]", "f32[1,2,2,8]"):
        shapes = {"source": "s8[1,4,4,8]", "weights": "s8[3,3,8,8]"}
        alone, graph = both(tmp_path, "ideal_4x4", "dram", "conv2d", shapes, out)
        assert isinstance(alone, str)
        assert isinstance(graph, str)
        assert ": [workload] out: operation" in alone
        assert alone.partition('operation "conv2d": ')[2] == graph.partition('operation "y": ')[2]
