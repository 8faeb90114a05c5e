"""Is every mistake in a program's bindings and files one clear line, and nothing written?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic
from support.blocks import block_program, state
from support.chips import ideal_chip
from support.command_line import refused, run_command
from support.layer import LAYER, saved_layer
from systolic.cli.run_program import npy_name
from systolic.errors import SystolicError
from systolic.isa import Access, Binding, Buffer, Module, Program, encode, format_text, load_module

ROOT = Path(__file__).resolve().parents[2]
FORMATS = (ROOT / "docs" / "program_format.md").read_text(encoding="utf-8")
ENGINES = ("event", "register")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- mistakes -------------------------------------------------------------------------------------


def test_inputs_that_are_missing_unknown_or_double() -> None:
    given = saved_layer()
    assert refused("run", LAYER, *given[:4]) == (
        f'{LAYER}: input "b" (f32 [3]) is missing; needed --input b=FILE.npy'
    )
    assert refused("run", LAYER, *given, "--input", "xx=x.npy") == (
        '--input xx=x.npy: the program has no input "xx" (it has: "x", "w", "b"); '
        'perhaps "x" was meant'
    )
    assert refused("run", LAYER, *given, "--input", "x=b.npy") == (
        '--input x=b.npy: input "x" is given twice'
    )
    assert refused("run", LAYER, "--input", "x.npy") == (
        '--input: needs NAME=FILE.npy, or a folder of them, found "x.npy"'
    )
    assert refused("run", LAYER, "--values", "none", "--input", "q=x.npy").startswith("--input q=")
    assert not Path("out").exists()


def test_options_that_do_not_belong() -> None:
    fig3 = ROOT / "configs" / "runs" / "transpose_fig3.toml"
    assert refused("run", fig3, "--input", "q=q.npy").endswith(
        "[workload] tensors.q: is no input of transpose (known: source)"
    )
    assert refused("run", fig3, "--no-check").startswith("--no-check: is for programs, and ")
    assert refused("run", LAYER, "--chip", "ideal_4x5").endswith('perhaps "ideal_4x4" was meant')
    assert refused("run", LAYER, "--engine", "evnt").endswith('perhaps "event" was meant')
    assert refused("run", "no.bin") == "no.bin: no such file"
    for name, content, kind in (
        ("other.cfg", b"", "is empty"),
        ("other.cfg", b'chip = "ideal_4x4"\n', "looks like a run file, but for its name"),
        ("other.cfg", b"\x7fELF\xff", "looks like a compiled program of this computer"),
        ("other.cfg", b"SYS", "is neither a run file nor a program"),
        ("x.npy", b"\x93NUMPY\x01\x00", "looks like a NumPy array, which is data for a run"),
        ("s.json", b"{}", "looks like JSON, such as the summary of a run"),
    ):
        Path(name).write_bytes(content)
        assert refused("run", name) == (
            f"{name}: {kind}; systolic takes run files, whose names end in .toml, and programs, "
            'which begin with "systolic program 1" (text) or SYSB (binary)'
        )
    Path("m.onnx").write_bytes(b"\x08\x07\x12\x07pytorch")
    assert refused("run", "m.onnx") == (
        "m.onnx: is a model, which names no chip; needs one (--chip CHIP)"
    )
    status, out, _ = run_command("run", fig3, "--chip", "ideal_128x128", "--json", "--no-plots")
    assert (status, json.loads(out)["chip"]) == (0, "ideal-128x128")


def program_file(text: str) -> str:
    Path("p.txt").write_text(f'systolic program 1\nprogram "p"\n{text}\n', encoding="utf-8")
    return "p.txt"


AT_4X4 = ("--chip", "ideal_4x4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input a (4) = state_buffer[0:1]+16380 f32 (1x4)",
         'input "a": bytes 16380 to 16395 of state_buffer, which has 16384'),
        ("output a (4) = state_buffer[4:5]+0 f32 (1x4)",
         'output "a": partitions 4 to 4 of state_buffer, which has 4'),
        ("input a (4) = state_buffer[0:1]+0 f33 (1x4)",
         'data type "f33" is not one the machine has (f32, bf16, f16, f8e4m3fn, f8e5m2, s8, u8, '
         's32, f8e8m0fnu, f4e2m1fn_x4, u16); perhaps "f32" was meant'),
        ("input a (4) = result_buffer[0:1]+0 bf16 (1x4)",
         'input "a": result-buffer words are f32 or s32, found bf16'),
        ("input a (4)", 'input "a": has no place: needed at least one access'),
        ("output a (4)\n [0:2] = dram[0:1]+0 f32 (1x2)\n [3:4] = dram[0:1]+8 f32 (1x1)",
         'output "a": has 4 elements, its parts only 3'),
        ("output a (4)\n [0:2] = dram[0:1]+0 f32 (1x2)\n [1:3] = dram[0:1]+8 f32 (1x2)",
         'output "a": element [3] of [4] lies in no part'),
        ("input a (4)\n [0:2] = dram[0:1]+0 f32 (1x2)\n [2:4] = dram[0:1]+8 s32 (1x2)",
         'input "a": needed one element type, found f32 and s32'),
        ("input a (4) = state_buffer[0:2]+0 f32 (1x2)\ninput b (2) = state_buffer[1:2]+4 f32 (1x2)",
         'input "b" lies on bytes of input "a"'),
        ("output a (1099511627776) = dram[0:1]+0 s8 (0x1099511627776)",
         "s8[1099511627776]{0} needs 4.0 TiB in this computer's memory"),
        ("memset pooling target=state_buffer[0:1]+0 f32 (0x16777217) value=1",
         "p: illegal: instruction 0 (Memset, line 3): target: at most 16777216 elements in a "
         "partition, found 16777217"),
        ("copy pooling source=state_buffer[0:1]+0 f32 (1x4) target=state_buffer[0:1]+64 f32 (1x4)",
         "p: unwritten: instruction 0 (Copy, line 3) reads state_buffer[0:1] bytes 0:16, which "
         "nothing has written"),
        ("matmul moving=state_buffer[0:4]+0 f32 (1x4) result=result_buffer[0:4]+0 f32 (1x4)",
         "p: no-weights: instruction 0 (MatMul, line 3): no LoadWeights before it"),
    ],
)  # fmt: skip
def test_programs_that_cannot_be_right(text: str, message: str) -> None:
    for values in ("none", "exact"):
        found = refused("run", program_file(text), *AT_4X4, "--values", values)
        assert found.startswith(message)
    assert not Path("out").exists()


def test_a_race_is_refused_and_runs_on_demand() -> None:
    text = LAYER.read_text(encoding="utf-8").replace("  wait s0>=1", "")
    Path("racy.txt").write_text(text, encoding="utf-8")
    given = saved_layer()
    assert refused("run", "racy.txt", *given).startswith("layer: read-after-write: instruction 2 ")
    assert not Path("out").exists()
    assert run_command("run", "racy.txt", *given, "--no-plots", "--no-check")[0] == 0


# -- files ----------------------------------------------------------------------------------------


def test_outputs_are_written_all_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "output a (4) = state_buffer[0:1]+0 f32 (1x4)\noutput b (4) = state_buffer[1:2]+0 f32 (1x4)"
    )
    path = program_file(text)
    assert run_command("run", path, *AT_4X4, "--no-plots")[0] == 0
    before = {p: p.read_bytes() for p in Path("out/p").iterdir()}
    save, calls = np.save, []

    def refuse_the_second(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(*arguments, **options)

    changed = program_file(text.replace("[0:1]+0", "[0:1]+16").replace("(4)", "(1, 4)"))
    with monkeypatch.context() as patched:
        patched.setattr("numpy.save", refuse_the_second)
        assert refused("run", changed, *AT_4X4, "--no-plots") == (
            "out/p/b.npy: cannot be written (No space left on device)"
        )
    assert {p: p.read_bytes() for p in Path("out/p").iterdir()} == before
    Path("out/p/summary.json").unlink()
    Path("out/p/summary.json").mkdir()
    assert refused("run", changed, *AT_4X4, "--no-plots") == (
        "out/p/summary.json: is a folder; needed the name of a file to write"
    )
    assert np.load("out/p/a.npy").shape == (4,)


NAMES = ["../up", "/abs", "a b", ".", "..", "", "é", "x\x1b[31m", "con\n", "\ud800", "%2e", "a/b",
         "$\\frac", "summary.json", "=", "a=b"]  # fmt: skip


def test_names_lead_nowhere_else() -> None:
    assert len({npy_name(name) for name in NAMES}) == len(NAMES)
    for name in NAMES:
        file = npy_name(name)
        assert Path(file).name == file
        assert file.endswith(".npy")
        assert not file.startswith(".")
    assert npy_name("A transposed") == "A transposed.npy"


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names(name: str) -> None:
    access = Access(Buffer.STATE, "f32", 0, 4, 0, ((1, 4),))
    whole = Binding.whole(name, (4, 4), access)
    program = Program(name, block_program(4, 4).instructions[:1], ())
    moved = Binding.whole(name, (4, 4), Access(Buffer.STATE, "f32", 0, 4, 8192, ((1, 4),)))
    Path("p.txt").write_text(
        format_text(Module(program, (whole,), (whole, moved)[:1], "ideal_4x4")), encoding="utf-8"
    )
    np.save("v.npy", np.eye(4, dtype=np.float32))
    status, out, err = run_command("run", "p.txt", "--input", f"{name}=v.npy")
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert sorted(path.name for path in Path("out").iterdir()) == ["p"]
    assert sorted(p.name for p in Path("out/p").iterdir()) == sorted(
        [npy_name(name), "summary.json", "wavefront.png"]
    )
    assert "\x1b" not in refused("run", "p.txt", "--input", f"{name}?=v.npy")


def test_the_api_refuses_what_the_command_line_does() -> None:
    chip = ideal_chip(4, 4)
    whole = Binding.whole("a", (4, 4), state(0, 4, 0, 4))
    module = Module(Program("p", ()), (whole,), (whole,))
    for inputs, message in (
        ({}, r'input "a" \(f32 \[4, 4\]\) is missing'),
        ({"a": np.zeros((4, 4))}, r'input "a" \(f32 \[4, 4\]\): found float64 \[4, 4\]'),
        ({"a": np.zeros((2, 8), "f4")}, r"found float32 \[2, 8\]"),
        ({"a": np.zeros((4, 4), "f4"), "b": np.zeros(1)}, 'the program has no input "b"'),
    ):
        with pytest.raises(SystolicError, match=message):
            systolic.run(module, chip, inputs)


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_damaged_programs_give_one_line(cases: int) -> None:
    """Binaries damaged under a good checksum, and texts with pieces missing, are refused or run."""
    from isa.formats.test_binary_form import HEADER, sealed

    given = [*saved_layer(), "--no-plots", "--out", "o"]
    body = encode(load_module(LAYER))[HEADER:-4]
    text = LAYER.read_bytes()
    rng = np.random.default_rng(cases)
    counts = {0: 0, 2: 0}
    for case in range(cases):
        if case % 2:
            data = bytearray(body)
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(0, len(data))] = rng.choice([0, 1, 2, 4, 127, 128, 255])
            content = sealed(bytes(data))
        else:
            first = rng.integers(0, len(text))
            content = text[:first] + text[first + rng.integers(1, 6) :]
        Path("p.bin").write_bytes(content)
        status, _, err = run_command("run", "p.bin", *given)
        assert status in counts, err
        counts[status] += 1
        assert err.count("\n") == (status == 2)
        assert "Traceback" not in err
        assert Path("o").exists() == (status == 0)
        if status == 0:
            for path in Path("o").iterdir():
                path.unlink()
            Path("o").rmdir()
    assert min(counts.values()) > 5, counts
