"""Do .npy files reach a program bit for bit, in every type, and are all others refused?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.command_line import refused, run_command
from support.layer import saved
from systolic.isa import Module, load_module

ROOT = Path(__file__).resolve().parents[2]
FORMATS = (ROOT / "docs" / "program_format.md").read_text(encoding="utf-8")
ENGINES = ("event", "register")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TYPES = {
    "f32": np.float32, "f16": np.float16, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
    "bf16": ml_dtypes.bfloat16, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn_x4": np.uint16,
}  # fmt: skip

SIZE = {name: np.dtype(dtype).itemsize for name, dtype in TYPES.items()}


def copy_module(dtype: str, shape: tuple[int, ...] = (2, 6)) -> Module:
    """Return a program that brings `a` to `b` by a DMA, bit for bit."""
    count = int(np.prod(shape))
    text = (
        "systolic program 1\n"
        f"input a ({', '.join(map(str, shape))}) = dram[0:1]+0 {dtype} (1x{count})\n"
        f"output b ({', '.join(map(str, shape))}) = state_buffer[1:2]+64 {dtype} (1x{count})\n"
        f"dma q0 source=dram[0:1]+0 {dtype} (1x{count}) "
        f"target=state_buffer[1:2]+64 {dtype} (1x{count})\n"
    )
    Path("copy.txt").write_text(text, encoding="utf-8")
    return load_module("copy.txt")


def bits(dtype: Any, shape: tuple[int, ...] = (2, 6)) -> np.ndarray:
    size = np.dtype(dtype).itemsize
    raw = np.random.default_rng(2).integers(0, 256, (*shape[:-1], shape[-1] * size), np.uint8)
    return raw.view(dtype).reshape(shape)


COPY = ["run", "copy.txt", "--chip", "ideal_4x4", "--no-plots", "--input", "a=a.npy"]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_keeps_its_bits(name: str) -> None:
    copy_module(name)
    values = bits(TYPES[name])
    # numpy's own np.save writes bfloat16 and float8_e4m3fn as V2 and V1, float8_e5m2 unreadably.
    named = ("f32", "f16", "s8", "u8", "s32", "f4e2m1fn_x4")
    saved(a=values if name in named else values.view(f"V{SIZE[name]}"))
    assert run_command(*COPY)[0] == 0
    found = np.load("out/copy/b.npy")
    assert found.tobytes() == values.tobytes()
    assert found.dtype == np.load("a.npy").dtype
    assert np.array_equal(
        found.view(TYPES[name]).view(np.uint8), values.view(np.uint8)
    )  # as docs/program_format.md says how to read it


@pytest.mark.parametrize("name", ["bf16", "f8e5m2"])
def test_bytes_of_a_nameless_type_as_whole_numbers(name: str) -> None:
    copy_module(name)
    values = bits(TYPES[name])
    saved(a=values.view(f"u{values.itemsize}"))
    assert run_command(*COPY)[0] == 0
    assert np.load("out/copy/b.npy").tobytes() == values.tobytes()


def test_big_endian_and_column_major_files() -> None:
    copy_module("f32")
    values = bits(np.float32)
    saved(a=np.asfortranarray(values.astype(">f4")))
    assert run_command(*COPY)[0] == 0
    assert np.load("out/copy/b.npy").tobytes() == values.tobytes()


def test_a_scalar() -> None:
    copy_module("bf16", ())
    saved(a=np.array(1.5, ml_dtypes.bfloat16))
    assert run_command(*COPY)[0] == 0
    assert np.load("out/copy/b.npy").view(ml_dtypes.bfloat16) == 1.5


@pytest.mark.parametrize(
    ("dtype", "array", "message"),
    [
        ("f32", np.zeros((2, 6)), "needed float32, found float64"),
        ("f32", np.zeros((2, 6), "u4"), "needed float32, found uint32"),
        ("s8", np.zeros((2, 6), "u1"), "needed int8, found uint8"),
        ("bf16", np.zeros((2, 6), "f4"),
         "needed bfloat16, or the bytes of it as V2 or u2, found float32"),
        ("f8e5m2", np.zeros((2, 6), "V2"),
         "needed float8_e5m2, or the bytes of it as V1 or u1, found |V2"),
        ("f16", np.zeros((2, 6), "V2"), "needed float16, found |V2"),
        ("f32", np.zeros((2, 6), [("x", "i2"), ("y", "i2")]),
         "needed float32, found [('x', '<i2'), ('y', '<i2')]"),
        ("f32", np.zeros((6, 2), "f4"), "found shape [6, 2]"),
        ("f32", np.zeros(12, "f4"), "found shape [12]"),
    ],
)  # fmt: skip
def test_another_type_or_shape(dtype: str, array: np.ndarray, message: str) -> None:
    copy_module(dtype)
    saved(a=array)
    assert refused(*COPY) == f'a.npy: input "a" ({dtype} [2, 6]): {message}'
    assert not Path("out").exists()


def test_files_that_are_no_arrays() -> None:
    copy_module("f32")
    np.save("a.npy", np.array([{"evil": 1}, None], object), allow_pickle=True)
    assert refused(*COPY).startswith("a.npy: is not a .npy file numpy can read (")
    Path("a.npy").write_bytes(b"hello")
    assert refused(*COPY) == "a.npy: is not a .npy file (it must begin with \\x93NUMPY)"
    Path("a.npy").unlink()
    assert refused(*COPY) == "a.npy: no such file"
    Path("a.npy").mkdir()
    assert refused(*COPY) == "a.npy: is a directory, not a file"
    assert not Path("out").exists()


def test_every_damaged_npy_is_refused_or_read() -> None:
    copy_module("f32")
    good = (saved(a=bits(np.float32)), Path("a.npy").read_bytes())[1]
    rng = np.random.default_rng(5)
    for _ in range(60):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(0, 128)] = rng.integers(0, 256)
        Path("a.npy").write_bytes(bytes(data[: rng.integers(8, len(data) + 1)]))
        status, _, err = run_command(*COPY)
        assert status == 0 or (status == 2 and err.count("\n") == 1), (status, err)
