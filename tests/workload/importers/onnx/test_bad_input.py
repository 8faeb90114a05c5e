"""Files that are no models, or wrong ones: one line with the node's name."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.command_line import run_command
from support.onnx_models import model_of, small_cnn
from systolic.errors import SystolicError
from systolic.workload.importers.given import ModelGiven
from systolic.workload.importers.models import read_model


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, name=f"the {kind}", **attributes)


def refused(model: Any, folder: Path, **given: Any) -> str:
    """Return the line that a model is refused with, without the file's name."""
    path = folder / "odd.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    with pytest.raises(SystolicError) as error:
        read_model(path, ModelGiven(**given))
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def one(kind: str, inputs: dict[str, Any], **attributes: Any) -> Any:
    return model_of([node(kind, list(inputs), ["y"], **attributes)], inputs, ("y",))


def cycle() -> Any:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]
    return model_of(nodes, {"x": (2,)}, ("b",))


def doubles() -> Any:
    types = {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}
    return model_of([node("Relu", ["x"], ["y"])], {"x": (2,)}, ("y",), types=types)


def declared(dims: list[int], kind: int = TensorProto.FLOAT) -> Any:
    model = one("Relu", {"x": (2, 3)})
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", kind, dims))
    return model


CASES = {
    "cycle": (cycle, 'nodes wait for one another: "the Add" -> "the Relu" -> "the Add"'),
    "types": (
        lambda: model_of([node("Add", ["x", "n"], ["y"])], {"x": (2,), "n": (2,)}, ("y",),
                         types={"n": TensorProto.INT32}),
        'node "the Add": Add: add of f32 and s32, two types',
    ),
    "double": (doubles, 'input "x": elements of double, which no chip has'),
    "dimensions": (
        lambda: one("Add", {"x": (2, 3), "z": (2, 4)}),
        'node "the Add": Add: dimensions [2, 3] and [2, 4] do not go together',
    ),
    "product": (
        lambda: one("MatMul", {"x": (2, 3), "z": (4, 5)}),
        'node "the MatMul": MatMul: a product of [2, 3] and [4, 5]: 3 columns, 4 rows',
    ),
    "declared": (lambda: declared([3, 2]), 'output "y": is declared as [3,2], found [2,3]'),
    "declared type": (
        lambda: declared([2, 3], TensorProto.INT32),
        'output "y": is declared as s32, found f32',
    ),
    "lost value": (
        lambda: model_of([node("Add", ["x", "w"], ["y"])], {"x": (2,)}, ("y",)),
        'node "the Add": takes "w", which no node makes',
    ),
    "lost output": (
        lambda: model_of([node("Relu", ["x"], ["z"])], {"x": (2,)}, ("y",)),
        'output "y": no node makes it',
    ),
    "twice": (
        lambda: model_of([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], {"x": (2,)},
                         ("y",)),
        'node "the Neg": makes "y", which is there already',
    ),
    "attribute": (
        lambda: one("Relu", {"x": (2,)}, slope=1.0),
        'node "the Relu": Relu has no attribute "slope"',
    ),
    "attribute type": (
        lambda: one("Softmax", {"x": (2,)}, axis=1.5),
        'node "the Softmax": Softmax has axis of another type (INT)',
    ),
    "operands": (
        lambda: one("Relu", {"x": (2,), "z": (2,)}),
        'node "the Relu": Relu takes 1 to 1 inputs, found 2',
    ),
    "no operation": (
        lambda: model_of(
            [node("Det", ["x"], ["a"]), node("NonZero", ["x"], ["y"])], {"x": (2, 2)}, ("a", "y"),
            types={"y": TensorProto.INT64},
        ),
        'cannot be done on the chip: Det (1, first "the Det"): graphs have no such operation; '
        'NonZero (1, first "the NonZero"): graphs have no such operation',
    ),
    "nothing": (lambda: b"", "is no ONNX file: has no graph"),
    "text": (lambda: b"HloModule m", "is no ONNX file: byte 3 begins no field"),
    "open": (
        lambda: one("Relu", {"x": ("batch", "length")}),
        'input "x" [batch,length]: "length" is open; needs a size',
    ),
    "shape": (
        lambda: model_of([node("Reshape", ["x", "dims"], ["y"])], {"x": (2, 3), "dims": (2,)},
                         ("y",), types={"dims": TensorProto.INT64}),
        'input "dims": the shape of node "the Reshape" (Reshape, operand 1) depends on it; needs '
        "its value",
    ),
    "bomb": (lambda: b"\x3a" + varint(1 << 23) + b"\x0a\x00" * (1 << 22),
             "has more than 2,000,000 fields"),
    "rank": (
        lambda: one("Gemm", {"x": (2, 3, 4), "z": (4, 5)}, transA=1),
        'node "the Gemm": Gemm: [2, 3, 4]: needs 2 dimensions',
    ),
    "bias": (
        lambda: one("Conv", {"x": (1, 1, 4, 4), "w": (2, 1, 3, 3), "b": (16,)}),
        'node "the Conv": Conv: [16] has other elements than [2, 1, 1]',
    ),
    "axes": (
        lambda: model_of([node("Unsqueeze", ["x", "axes"], ["y"])], {"x": (2,)}, ("y",),
                         {"axes": np.array([0, 0])}),
        'node "the Unsqueeze": Unsqueeze: axes [0, 0]: each is needed once',
    ),
    "no elements": (
        lambda: one("Add", {"x": (2, 0), "z": (2, 0)}), "[2,0] is a tensor without elements",
    ),
    "no elements of a constant": (
        lambda: model_of([node("Add", ["x", "w"], ["y"])],
                         {"x": (1,)}, ("y",), {"w": np.zeros(0, np.float32)}),
        'node "the Add": Add: [0] is a tensor without elements',
    ),
    "no steps": (
        lambda: model_of([node("RNN", ["s", "w", "x"], ["y"], hidden_size=2)],
                         {"x": (1, 2, 2)}, ("y",),
                         {"s": np.zeros((0, 1, 3), np.float32),
                          "w": np.ones((1, 2, 3), np.float32)}),
        'cannot be done on the chip: RNN (1, first "the RNN"): without steps, or without elements '
        "in each",
    ),
    "complex": (
        lambda: model_of([node("Reshape", ["x", "w"], ["y"])], {"x": (2,)}, ("y",),
                         {"w": np.array([2j])}),
        'constant "w": has complex numbers',
    ),
    "no type": (
        lambda: untyped(), 'node "the LeakyRelu": LeakyRelu has alpha of another type (FLOAT)',
    ),
    "operator": (
        lambda: small_cnn().SerializeToString().replace(b"MaxPool", b"Max\xffool"),
        'node "p1": the name of its operator is not UTF-8',
    ),
    "opset": (
        lambda: in_opset(1 << 40), "has an opset above 2,147,483,647",
    ),
    "numbers": (lambda: b"\x08\x00" * (1 << 21), "has more than 2,000,000 fields"),
    "zeros": (lambda: bytes(100), "is no ONNX file: byte 1 begins no field"),
    "large": (
        lambda: model_of([node("ConstantOfShape", ["n"], ["a"]), node("Add", ["x", "a"], ["y"])],
                         {"x": (1,)}, ("y",), {"n": np.array([1 << 20, 1 << 20])}),
        'node "the ConstantOfShape": ConstantOfShape: [1048576, 1048576]: more than '
        "2,147,483,648 elements",
    ),
}  # fmt: skip


def untyped() -> Any:
    model = one("LeakyRelu", {"x": (2,)}, alpha=0.5)
    model.graph.node[0].attribute[0].ClearField("type")
    return model


def in_opset(number: int) -> Any:
    model = one("Relu", {"x": (2,)})
    model.opset_import[0].version = number
    return model


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_model_is_a_line(name: str, tmp_path: Path) -> None:
    make, message = CASES[name]
    assert refused(make(), tmp_path) == message


@pytest.mark.parametrize(
    ("name", "size_bytes", "limit"),
    [("m.onnx", 2 << 30, "2047 MiB"), ("m.hlo", (512 << 20) + 1, "512 MiB")],
)
def test_a_file_that_is_too_large_is_not_read(
    name: str, size_bytes: int, limit: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(size_bytes)  # sparse
    tracemalloc.start()
    with pytest.raises(SystolicError) as error:
        read_model(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(error.value) == f"{path}: is larger than {limit}: not a model that can be read"
    assert peak_bytes < 1 << 20


def test_a_cut_file_is_a_line(tmp_path: Path) -> None:
    data = small_cnn().SerializeToString()
    assert "cut off" in refused(data[: len(data) // 2], tmp_path)


def external(location: str) -> Any:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (4,)}, ("y",))
    tensor = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    onnx.external_data_helper.set_external_data(tensor, location, offset=4)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    model.graph.initializer.append(tensor)
    return model


def test_external_data_lie_beside_the_model(tmp_path: Path) -> None:
    np.arange(5, dtype=np.float32).tofile(tmp_path / "w.bin")
    (tmp_path / "odd.onnx").write_bytes(external("w.bin").SerializeToString())
    (found,) = read_model(tmp_path / "odd.onnx").constants.values()
    assert found.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "", ".", "link.bin"])
def test_external_data_elsewhere_are_never_read(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    np.arange(5, dtype=np.float32).tofile(tmp_path / "w.bin")
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    said = refused(external(location), folder)
    assert said == f'constant "w": external data "{location}" are not in the folder of the model'


def test_external_data_that_are_missing_or_short(tmp_path: Path) -> None:
    said = refused(external("w.bin"), tmp_path)
    assert said == 'constant "w": external data: no file "w.bin" beside the model'
    np.arange(4, dtype=np.float32).tofile(tmp_path / "w.bin")
    said = refused(external("w.bin"), tmp_path)
    assert said == 'constant "w": external data: "w.bin" has 16 bytes, needed 16 from 4 on'


def test_sizes_that_contradict(tmp_path: Path) -> None:
    model = one("Add", {"x": ("n", 3), "z": ("n", 3)})
    shapes = {"x": (2, 3), "z": (4, 3)}
    said = refused(model, tmp_path, shapes=shapes)
    assert said == 'input "z": has n = 4, but n is 2 elsewhere'
    said = refused(model, tmp_path, shapes={"x": (2, 4)})
    assert said == 'input "x": has dimensions n,3, found 2,4'
    said = refused(model, tmp_path, shapes={"m": (4,)})
    assert said == 'shape of "m": is no input and no open dimension (known: x, z, n)'


def test_the_command_names_its_options(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    path.write_bytes(one("Relu", {"x": ("batch", "length")}).SerializeToString())
    status, _, errors = run_command("run", path, "--chip", "ideal_4x4")
    assert status == 2
    assert errors.endswith('"length" is open; needs a size (--shape NAME=SIZES)\n')
