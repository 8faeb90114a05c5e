"""The recipe "An engine" of docs/extending.md: rows of a chip file, and no Python.

A chip with one engine, with three, and with six, each from its file to the picture.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.command_line import refused, run_command
from systolic.config import load_chip

SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "chips" / "ideal_4x4.toml"
ONE = '[engines.only]\ndoes = ["copy", "select"]\nindependent_lanes = true\n'
THREE = """
[engines.vector]
does = ["copy", "tensor_tensor"]
latency_cycles = 2

[[engines.vector.rates]]
types = ["bf16"]
elements = 4

[engines.scalar]
does = ["copy", "activate"]
latency_cycles = 3

[engines.gpsimd]
does = ["iota", "select"]
reads = ["state_buffer"]
writes = ["state_buffer"]
fixed_cycles = 5
"""
MORE = "".join(f'\n[engines.more{n}]\ndoes = ["memset"]\n' for n in range(3))
RUN = (
    'chip = "toy"\n[workload]\nop = "transpose"\nshape = "bf16[6,5]"\n'
    '[compile]\nidentity = "built"\n'
)
GIVEN = ("--chip", "toy.toml", "--input", "x=x.npy")
PROGRAM = """systolic program 1
semaphore s0 "made"
input x (4, 4) = state_buffer[0:4]+0 f32 (1x4)
output y (4, 4) = state_buffer[0:4]+256 f32 (1x4)
activate scalar function=ramp source=state_buffer[0:4]+0 f32 (1x4) target=state_buffer[0:4]+128 f32 (1x4)  post s0
tensor_tensor vector op=add left=state_buffer[0:4]+0 f32 (1x4) right=state_buffer[0:4]+128 f32 (1x4) target=state_buffer[0:4]+256 f32 (1x4)  wait s0>=1
"""  # noqa: E501


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("r.toml").write_text(RUN, encoding="utf-8")
    Path("p.txt").write_text(PROGRAM, encoding="utf-8")
    np.save("x.npy", np.ones((4, 4), np.float32))
    return tmp_path


def write_chip(engines: str) -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    patents = text[text.index("[activation]") : text.index("[dma]")]
    Path("toy.toml").write_text(text.replace(patents, engines + "\n"), encoding="utf-8")


@pytest.mark.parametrize(
    ("engines", "names", "drains", "builds"),
    [
        (ONE, ["only"], "only", "only"),
        (THREE, ["vector", "scalar", "gpsimd"], "vector", "gpsimd"),
        (THREE + MORE, ["vector", "scalar", "gpsimd", "more0", "more1", "more2"],
         "vector", "gpsimd"),
    ],
)  # fmt: skip
def test_from_the_chip_file_to_the_picture(engines, names, drains, builds, folder: Path) -> None:
    write_chip(engines)
    assert list(load_chip("toy.toml").lane_engines) == names
    found = {}
    for engine in ("event", "register"):
        status, out, err = run_command(
            "run", "r.toml", "--json", "--engine", engine, "--out", engine
        )
        assert (status, err) == (0, "")
        found[engine] = json.loads(out)
        assert found[engine]["values"]["equal"] is True
        assert list(found[engine]["units"]) == ["pe_array", *names, "dma0", "dma1"]
        assert (folder / engine / "wavefront.png").stat().st_size > 10_000
    assert found["event"]["units"] == found["register"]["units"]
    labels = {name: unit["labels"] for name, unit in found["event"]["units"].items()}
    assert {name for name in names if "streaming" in labels[name]} == {drains, builds}


def test_a_program_names_them_in_both_forms() -> None:
    write_chip(THREE)
    assert run_command("assemble", "p.txt", "p.bin")[0] == 0
    status, text, _ = run_command("disassemble", "p.bin")
    assert status == 0
    assert "activate scalar function=ramp" in text
    for form in ("p.txt", "p.bin"):
        status, out, err = run_command("run", form, *GIVEN, "--json", "--no-plots")
        assert (status, err) == (0, "")
        labels = json.loads(out)["units"]["vector"]["labels"]
        assert "waiting for scalar" in labels
    status, out, _ = run_command("lint", "p.txt", "--chip", "toy.toml")
    assert status == 0


def test_an_engine_the_chip_does_not_have_is_refused_with_its_line() -> None:
    write_chip(ONE)
    found = refused("run", "p.txt", *GIVEN)
    assert "engine: no engine of ideal-4x4 does activate (only does copy, select)" in found


def test_the_schema_has_every_key_of_an_engine() -> None:
    status, out, _ = run_command("schema", "chip")
    assert status == 0
    known = json.loads(out)["$defs"]
    assert {"does", "reads", "writes", "rates", "clock"} <= known["Engine"]["properties"].keys()
    assert {"operands", "target", "types", "stride_bytes", "elements", "cycles"} <= known["Rate"][
        "properties"
    ].keys()
