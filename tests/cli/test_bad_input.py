"""Is work that makes no sense, or does not fit, one clear line, status 2, and nothing written?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.command_line import refused

HEAD = 'chip = "ideal_4x4"\n[workload]\n'
GRAPH = HEAD + 'home = "dram"\n'


def tensor(name: str, shape: str, more: str = "") -> str:
    return f'[workload.tensors.{name}]\nshape = "{shape}"\n{more}\n'


def op(kind: str, name: str, inputs: str, out: str, more: str = "") -> str:
    named = ", ".join(f'"{i}"' for i in inputs.split())
    return (
        f'[[workload.ops]]\nop = "{kind}"\nname = "{name}"\ninputs = [{named}]\nout = "{out}"\n'
        + (f"{more}\n")
    )


X, W = tensor("x", "f32[4,5]"), tensor("w", "f32[5,3]")
PRODUCT = GRAPH + X + W + op("matmul", "y", "x w", "f32[4,3]")
LONE = HEAD + 'op = "matmul"\nlhs = "f32[4,5]"\nrhs = "{rhs}"\nout = "f32[4,3]"\nhome = "{home}"\n'
WHERE = r"r\.toml: \[workload\] ops: "

UNKNOWN = {
    "operation": (
        GRAPH + X + W + op("matmull", "y", "x w", "f32[4,3]"),
        WHERE + r'operation "y": unknown operation "matmull"; perhaps "matmul" was m',
    ),
    "lone operation": (
        HEAD + 'op = "transpsoe"\nshape = "f32[4,4]"',
        r'r\.toml: \[workload\] op: unknown operation "transpsoe"; perhaps "transpose" was m',
    ),
    "key of the run": (
        'chp = "ideal_4x4"\n[workload]\nop = "transpose"',
        r'r\.toml: unknown key "chp" \(known: chip, compile, .*\); perhaps "chip" was meant',
    ),
    "key of an operation": (
        PRODUCT + "permutaton = [1, 0]",
        r'r\.toml: \[workload\.ops #1\] unknown key "permutaton" '
        r'\(known: .*axes, .*inputs, .*\); perhaps "permutation" was meant',
    ),
    "key of a tensor": (
        GRAPH + tensor("x", "f32[4,4]", 'hom = "dram"') + op("matmul", "y", "x x", "f32[4,4]"),
        r'r\.toml: \[workload\.tensors\.x\] unknown key "hom" '
        r'\(known: array, byte, data, .*\); perhaps "home" was meant',
    ),
    "tensor": (
        GRAPH + X + W + op("matmul", "y", "x ww", "f32[4,3]"),
        WHERE + r'operation "y": no tensor "ww" \(known: x, w, y\); perhaps "w" was meant',
    ),
    "element type": (
        GRAPH + tensor("x", "f33[4,5]") + W + op("matmul", "y", "x w", "f32[4,3]"),
        r"""r\.toml: \[workload\] tensors\.x: .*unknown element type "f33" """
        r"""\(known: pred, .*\); perhaps "f32" was m""",
    ),
}

SHAPES = {
    "matmul": (
        GRAPH + X + tensor("w", "f32[4,3]") + op("matmul", "y", "x w", "f32[4,3]"),
        r'operation "y": f32\[4,5\] and f32\[4,3\] cannot be multiplied: .* need the same K',
    ),
    "lone matmul": (
        LONE.format(rhs="f32[6,3]", home="dram"),
        r'operation "matmul": f32\[4,5\] and f32\[6,3\] cannot be multiplied',
    ),
    "batches": (
        GRAPH + tensor("x", "f32[2,4,5]") + tensor("w", "f32[3,5,3]")
        + op("matmul", "y", "x w", "f32[2,4,3]"),
        r'operation "y": f32\[2,4,5\] and f32\[3,5,3\] cannot be multiplied: .* leading dimensions',
    ),
    "result": (
        GRAPH + X + W + op("matmul", "y", "x w", "f32[3,4]"),
        r'operation "y": f32\[4,5\] times f32\[5,3\] has dimensions \[4,3\], but out is f32\[3,4\]',
    ),
    "transpose": (
        GRAPH + X + op("transpose", "y", "x", "f32[4,5]", "permutation = [1, 0]"),
        r'operation "y": f32\[4,5\] gives f32\[5,4\], but out is f32\[4,5\]',
    ),
    "permutation": (
        GRAPH + X + op("transpose", "y", "x", "f32[5,4]", "permutation = [1, 1]"),
        r'operation "y": permutation: each axis from 0 to 1 must be named once, found \[1, 1\]',
    ),
    "reshape": (
        GRAPH + X + op("reshape", "y", "x", "f32[21]"),
        r'operation "y": f32\[4,5\] has 20 elements, f32\[21\] 21',
    ),
    "cast": (
        GRAPH + X + op("cast", "y", "x", "bf16[5,4]"),
        r'operation "y": f32\[4,5\] gives bf16\[4,5\], but out is bf16\[5,4\]',
    ),
    "number of operands": (
        GRAPH + X + op("matmul", "y", "x", "f32[4,5]"),
        r'operation "y": matmul takes 2 tensors, found 1',
    ),
    "no elements": (
        GRAPH + tensor("x", "f32[0,4]") + op("reshape", "y", "x", "f32[0]"),
        r'operation "y": f32\[0,4\].* has no elements',
    ),
}  # fmt: skip

GRAPHS = {
    "a cycle": (
        GRAPH
        + tensor("x", "f32[4,4]")
        + op("matmul", "y", "x z", "f32[4,4]")
        + op("matmul", "z", "x y", "f32[4,4]"),
        r"the graph has a cycle: y -> z -> y",
    ),
    "a loop": (
        GRAPH + tensor("x", "f32[4,4]") + op("matmul", "y", "x y", "f32[4,4]"),
        r"the graph has a cycle: y -> y",
    ),
    "one name twice": (
        PRODUCT + op("relayout", "y", "x", "f32[4,5]"),
        r'tensor "y" is there twice',
    ),
    "no operations": (GRAPH + X, r"a graph needs at least one operation"),
}

ROOM = {
    "dram": (
        GRAPH + tensor("x", "f32[65536,65536]") + op("relayout", "y", "x", "f32[65536,65536]"),
        [],
        r"dram of ideal-4x4 has no room for x: f32\[65536,65536\]\{1,0\} needs 17179869184 bytes "
        r".*found size_bytes = 8589934592",
    ),
    "dram, for a transpose": (
        HEAD + 'op = "transpose"\nshape = "f32[32,32]"\nhome = "dram"',
        ["chip.dram.size_bytes=5000"],
        r"dram of ideal-4x4 has no room.*f32\[32,32\].*\b(8192|4096)\b.*5000",
    ),
    "inputs on chip": (
        LONE.format(rhs="f32[5,3]", home="state_buffer"),
        ["chip.state_buffer.bytes_per_partition=16", "chip.state_buffer.banks=1"],
        r"state_buffer of ideal-4x4 has no room for lhs: f32\[4,5\]\{1,0\} takes 20 bytes of each "
        r"of 4 partitions, found 16$",
    ),
    "tiles in the state buffer": (
        PRODUCT,
        ["chip.state_buffer.bytes_per_partition=16", "chip.state_buffer.banks=1"],
        r"state_buffer of ideal-4x4 has no room for .* bytes per partition.*\b16\b",
    ),
    "a block in a bank of the result buffer": (
        HEAD + 'op = "transpose"\nshape = "f32[4,4]"\n[compile]\nvia = "pe"',
        ["chip.result_buffer.bank_bytes=8"],
        r"result_buffer of ideal-4x4 .* 4 .* bank.*8",
    ),
}

TYPES = {
    "of the array": (
        GRAPH + tensor("x", "s32[4,4]") + op("matmul", "y", "x x", "s32[4,4]"),
        [],
        r'operation "y": s32\[4,4\]\{1,0\}: the array of ideal-4x4 cannot take s32; it takes f32, ',
    ),
    "of this chip's array": (
        PRODUCT,
        ["chip.pe_array.cycles_per_vector={bf16=1}"],
        r'operation "y": f32\[4,5\].* the array of ideal-4x4 cannot take f32; it takes bf16$',
    ),
    "of the machine": (
        GRAPH + tensor("x", "c64[4,4]") + op("relayout", "y", "x", "c64[4,4]"),
        [],
        r'tensor "x": the machine has no type c64 \(known: f32, .*\)',
    ),
    "float and integer": (
        GRAPH + X + tensor("w", "s8[5,3]") + op("matmul", "y", "x w", "f32[4,3]"),
        [],
        r'operation "y": f32\[4,5\], s8\[5,3\] and f32\[4,3\]: integers multiply with integers',
    ),
    "f32 and bf16": (
        GRAPH + X + tensor("w", "bf16[5,3]") + op("matmul", "y", "x w", "f32[4,3]"),
        [],
        r'operation "y": f32 cannot be multiplied with bf16: f32 goes with f32 only',
    ),
    "of a transpose's result": (
        GRAPH + X + op("transpose", "y", "x", "bf16[5,4]", "permutation = [1, 0]"),
        [],
        r'operation "y": f32\[4,5\] gives f32\[5,4\], but out is bf16\[5,4\]',
    ),
}

CASES = [
    pytest.param(text, [], message, id=f"{group}-{name}")
    for group, cases in (("unknown", UNKNOWN), ("shapes", SHAPES), ("graph", GRAPHS))
    for name, (text, message) in cases.items()
] + [
    pytest.param(text, changes, message, id=f"{group}-{name}")
    for group, cases in (("room", ROOM), ("types", TYPES))
    for name, (text, changes, message) in cases.items()
]


@pytest.mark.parametrize("command", ["run", "compile"])
@pytest.mark.parametrize(("text", "changes", "message"), CASES)
def test_one_line(
    text: str,
    changes: list[str],
    message: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.toml").write_text(text, encoding="utf-8")
    options = [word for change in changes for word in ("--set", change)]
    options += ["--out", "o"] if command == "run" else ["--program", "p.txt", "--inputs", "i"]
    found = refused(command, "r.toml", *options)
    assert re.search(message, found), found
    assert [path.name for path in Path().iterdir()] == ["r.toml"]


def test_the_same_work_is_taken_where_it_makes_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is right work taken? So no case above is refused for a reason that all cases share."""
    monkeypatch.chdir(tmp_path)
    for text in (PRODUCT, LONE.format(rhs="f32[5,3]", home="state_buffer")):
        Path("r.toml").write_text(text, encoding="utf-8")
        with pytest.raises(AssertionError, match=r"^\(0, "):
            refused("run", "r.toml", "--no-plots")
