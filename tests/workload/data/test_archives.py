"""Arrays by name, of .npz and .safetensors files: what run files take, and what is refused."""

from __future__ import annotations

import contextlib
import io
import sys
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import systolic
from systolic.errors import WorkloadError
from systolic.layout import Shape
from systolic.workload.data.sources import DataSource, load_data

RUN = """\
chip = "ideal_4x4"
[workload]
home = "dram"
data = "weights{suffix}"
[workload.tensors]
x = {{ shape = "bf16[3,4]", data = "arange" }}
w = {{ shape = "bf16[4,5]", array = "h.0.w" }}
b = {{ shape = "f32[5]" }}
[[workload.ops]]
op = "matmul"
name = "s"
inputs = ["x", "w"]
out = "f32[3,5]"
[[workload.ops]]
op = "binary"
name = "y"
inputs = ["s", "b"]
out = "f32[3,5]"
operator = "add"
broadcast_dimensions = [1]
"""
B = np.arange(5, dtype=np.float32)


def saved(folder: Path, suffix: str) -> dict[str, np.ndarray]:
    """Write weights of whole numbers that bf16 holds; return them."""
    w = np.arange(20, dtype=np.float32).reshape(4, 5)
    if suffix == ".npz":
        np.savez(folder / "weights.npz", **{"h.0.w": w, "b": B})
    else:
        save = pytest.importorskip("safetensors.numpy").save_file
        save({"h.0.w": w.astype(ml_dtypes.bfloat16), "b": B}, folder / "weights.safetensors")
    return {"w": w, "b": B}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_run_file_takes_weights_by_name(tmp_path, suffix):
    weights = saved(tmp_path, suffix)
    (tmp_path / "run.toml").write_text(RUN.format(suffix=suffix), encoding="utf-8")
    result = systolic.run(tmp_path / "run.toml")
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(result.outputs["y"], x @ weights["w"] + weights["b"])
    assert result.summary["inputs"]["w"]["data"] == str(tmp_path / f"weights{suffix}")
    config = result.summary["config"]["workload"]["tensors"]["w"]
    assert config["array"] == "h.0.w"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("h.0.v", "f32[4,5]",
         'holds no array "h.0.v", but h.0.w, b; perhaps "h.0.w" was meant'),
        ("b", "f32[4,5]", "holds [5] elements, but the shape is [4, 5]"),
    ],
)  # fmt: skip
def test_another_name_or_shape(tmp_path, suffix, name, shape, text):
    saved(tmp_path, suffix)
    path = tmp_path / f"weights{suffix}"
    with pytest.raises(WorkloadError) as raised:
        load_data(DataSource("file", path=path, array=name), Shape.parse(shape))
    known = text.replace("h.0.w, b", "b, h.0.w")  # a safetensors file has an order of its own
    assert str(raised.value) in (f"{path}: {text}", f"{path}: {known}")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"no such file at all, but some text", b"PK\x03\x04 x"])
def test_a_file_of_something_else(tmp_path, suffix, content):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(content)
    with pytest.raises(WorkloadError) as raised:
        load_data(DataSource("file", path=path, array="w"), Shape.parse("f32[4]"))
    assert str(raised.value).startswith(f"{path}: is not a")
    assert "\n" not in str(raised.value)


def test_pickled_objects_are_refused(tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, w=np.array([{}], dtype=object))
    with pytest.raises(WorkloadError, match=r"is not a \.npz file numpy can read"):
        load_data(DataSource("file", path=path, array="w"), Shape.parse("f32[1]"))


def test_without_the_package(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(WorkloadError) as raised:
        load_data(DataSource("file", path=path, array="w"), Shape.parse("f32[1]"))
    assert str(raised.value) == (
        f"{path}: needs the package safetensors, which is not installed (an extra of systolic: "
        "weights)"
    )


def test_a_single_array_is_no_archive(tmp_path):
    path = tmp_path / "weights.npz"
    with path.open("wb") as file:
        np.save(file, B)
    with pytest.raises(WorkloadError) as raised:
        load_data(DataSource("file", path=path, array="b"), Shape.parse("f32[5]"))
    assert str(raised.value) == f"{path}: is not an .npz file, but a single array"


def test_a_large_array_of_other_dimensions_takes_no_memory(tmp_path: Path) -> None:
    """Of 1 GiB of zeros, which are 1 MB in the file, only the header is read."""
    path = tmp_path / "weights.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (16384, 16384)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("b.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(64):
            member.write(bytes(1 << 24))
    source = DataSource("file", path=path, array="b")
    tracemalloc.start()
    with pytest.raises(WorkloadError) as raised:
        load_data(source, Shape.parse("f32[3,4]"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(raised.value) == (f"{path}: holds [16384, 16384] elements, but the shape is [3, 4]")
    assert most < 4 << 20


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    for content in (b"", b"notes", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(1 << 17)):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("b.npy", content)
        with pytest.raises(WorkloadError, match=r"is not a \.npz file numpy can read \("):
            load_data(DataSource("file", path=path, array="b"), Shape.parse("f32[3,4]"))


def test_any_flipped_bit_is_one_line(tmp_path: Path) -> None:
    good = tmp_path / "good.npz"
    np.savez_compressed(good, b=np.ones((3, 4), np.float32))
    data, rng = good.read_bytes(), np.random.default_rng(7)
    path = tmp_path / "weights.npz"
    for _ in range(250):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with contextlib.suppress(WorkloadError):
            load_data(DataSource("file", path=path, array="b"), Shape.parse("f32[3,4]"))
