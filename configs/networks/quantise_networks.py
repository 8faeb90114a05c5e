"""Write resnet50_int8.toml and mobilenet_v2_int8.toml with their .npz: the same files every time.

    python configs/networks/quantise_networks.py

Each has the layers of the bf16 network beside it. Weights are s8, drawn with fixed seeds over
their whole range, and sums are s32. What leaves a layer is (sums + bias) times a scale, rounded to
the nearest even and kept within -128 to 127, or 0 to 127 where the bf16 network has a ramp. Both
sides of a residual are s8, and their sum has a scale of its own. Biases are a tenth as wide as the
sums. Scales come from the image: all but a thousandth of what a layer gives is within 127.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from systolic.layout import Shape
from systolic.workload.data.sources import DataSource, load_data
from systolic.workload.operations.row import Rules
from systolic.workload.operations.table import OPERATIONS

HERE = Path(__file__).resolve().parent
MOST, BEYOND, BIAS = 127, 0.001, 0.1
WHOLE = Rules(k_tiles=lambda length: (0, length))
"""Sums of integers are the same in any order."""
HEADS = {
    "resnet50": "ResNet-50 (version 1.5, stride in the 3 x 3), one image of 224 x 224, int8",
    "mobilenet_v2": "MobileNet-V2, one image of 224 x 224, int8",
}
COMMENT = """\
# {0}.
# Layers are those of {1}.toml. Weights and results of layers are s8, sums are s32. What
# leaves a layer is (sums + bias) times a scale, rounded to the nearest even and kept within the
# range of s8, by one instruction. Weights are random, drawn with fixed seeds: shapes and work are
# exact, classes mean nothing. This file, its biases and its scales come from quantise_networks.py.
"""


@dataclass
class Network:
    """An int8 network that is being written, and the values that it has for its image.

    values: of each tensor. arrays: what the .npz holds. held: by the name of a cast of the bf16
    network its operand, if that is s8 here.
    """

    name: str
    tensors: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def drawn(self, name: str, shape: str) -> None:
        """Add a tensor of random s8."""
        seed = len(self.tensors)
        self.values[name] = load_data(DataSource("random", seed), Shape.parse(shape))
        self.tensors.append(f'{name} = {{ shape = "{shape}", seed = {seed} }}')

    def made(self, name: str, shape: str, array: Any) -> None:
        """Add a tensor whose elements the .npz holds."""
        self.values[name] = self.arrays[name] = array
        data = f'data = "{self.name}_int8.npz"'
        self.tensors.append(f'{name} = {{ shape = "{shape}", {data} }}')

    def add(self, op: str, name: str, inputs: list[str], out: str, **keys: Any) -> str:
        """Add an operation, and do it."""
        listed = ", ".join(f'"{each}"' for each in inputs)
        lines = ["[[workload.ops]]", f'op = "{op}"', f'name = "{name}"', f"inputs = [{listed}]"]
        lines += [f'out = "{out}"', *(f"{key} = {_toml(value)}" for key, value in keys.items())]
        self.operations.append("\n".join(lines))
        row, shape = OPERATIONS[op], Shape.parse(out)
        given = {key: tuple(v) if isinstance(v, list) else v for key, v in keys.items()}
        arrays = [self.values[each] for each in inputs]
        shapes = [Shape("s8", array.shape) for array in arrays]
        attributes = row.settle(shapes, row.attributes(**given))
        self.values[name] = row.reference(arrays, shape, attributes, WHOLE)
        return name

    def requantise(self, name: str, source: str, out: str, *, ramp: bool = False) -> str:
        """Add what takes a tensor to s8, with a scale by which most of it fits."""
        found = np.sort(np.abs(self.values[source].astype(np.float64)), axis=None)
        largest = max(found[int((found.size - 1) * (1 - BEYOND))], 1)
        scale = np.float32(MOST / largest)
        self.made(f"{name}_scale", "f32[]", np.asarray(scale))
        keys = {"lowest": 0} if ramp else {}
        return self.add("requantise", name, [source, f"{name}_scale"], out, **keys)

    def text(self, about: str) -> str:
        """Return the run file."""
        head = COMMENT.format(about, self.name)
        head += f'\ndescription = "{about}"\nchip = "ideal_128x128"\n\n'
        head += '[workload]\nhome = "dram"\ndata = "random"\n\n[workload.tensors]\n'
        return "\n\n".join([head + "\n".join(self.tensors), *self.operations]) + "\n"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _of_type(kind: str, shape: str) -> str:
    """Return a shape with another element type."""
    return f"{kind}[{shape.split('[', 1)[1]}"


def quantised(name: str, run_file: str) -> Network:
    """Return the int8 network that has the layers of a bf16 one; run_file: the text of that."""
    given, network = tomllib.loads(run_file)["workload"], Network(name)
    for each, entry in given["tensors"].items():
        if not each.endswith("_bias"):
            network.drawn(each, _of_type("s8", entry["shape"]))
    for op in given["ops"]:
        keys = {k: v for k, v in op.items() if k not in ("op", "name", "inputs", "out")}
        inputs = [network.held.get(each, each) for each in op["inputs"]]
        LAYERS[op["op"]](network, op, inputs, keys)
    return network


def _sums(network: Network, op: dict[str, Any], inputs: list[str], keys: dict[str, Any]) -> None:
    """Add a product or a convolution, whose sums are s32."""
    network.add(op["op"], op["name"], inputs, _of_type("s32", op["out"]), **keys)


def _binary(network: Network, op: dict[str, Any], inputs: list[str], keys: dict[str, Any]) -> None:
    """Add a bias, or a residual: its two sides as s8 give s32."""
    name, (source, other) = op["name"], inputs
    if other.endswith("_bias"):
        sums = network.values[source]
        width = BIAS * float(np.sqrt(np.mean(sums.astype(np.float64) ** 2)))
        drawn = np.random.default_rng(len(network.tensors)).standard_normal(sums.shape[-1])
        bias = np.rint(drawn * width).astype(np.int32)
        network.made(other, f"s32[{bias.size}]", bias)
        network.add("binary", name, inputs, _of_type("s32", op["out"]), **keys)
        return
    sides = [
        each if network.values[each].dtype == np.int8
        else network.requantise(f"{each}_narrow", each, _of_type("s8", op["out"]))
        for each in inputs
    ]  # fmt: skip
    if op["out"].startswith("f32"):
        network.add("binary", name, sides, _of_type("s32", op["out"]), **keys)
    else:  # the bf16 network rounds this sum at once
        wide = network.add("binary", f"{name}_sum", sides, _of_type("s32", op["out"]), **keys)
        network.requantise(name, wide, _of_type("s8", op["out"]))


def _activation(
    network: Network, op: dict[str, Any], inputs: list[str], keys: dict[str, Any]
) -> None:
    """Take sums to s8, none of them negative: a ramp, or one that is cut off."""
    network.requantise(op["name"], inputs[0], _of_type("s8", op["out"]), ramp=True)


def _cast(network: Network, op: dict[str, Any], inputs: list[str], keys: dict[str, Any]) -> None:
    """Take sums to s8; what is s8 stays."""
    if network.values[inputs[0]].dtype == np.int8:
        network.held[op["name"]] = inputs[0]
    else:
        network.requantise(op["name"], inputs[0], _of_type("s8", op["out"]))


def _pool(network: Network, op: dict[str, Any], inputs: list[str], keys: dict[str, Any]) -> None:
    network.add("pool", op["name"], inputs, _of_type("s8", op["out"]), **keys)


def _mean(network: Network, op: dict[str, Any], inputs: list[str], keys: dict[str, Any]) -> None:
    """Take the mean of each channel in float32, and that to s8."""
    out = _of_type("f32", op["out"])
    mean = network.add("reduce", f"{op['name']}_mean", inputs, out, **keys)
    network.requantise(op["name"], mean, _of_type("s8", op["out"]))


LAYERS = {
    "conv2d": _sums,
    "matmul": _sums,
    "binary": _binary,
    "activation": _activation,
    "cast": _cast,
    "pool": _pool,
    "reduce": _mean,
}


def files() -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Yield the run file of each network, its text, and the arrays of the .npz beside it."""
    for name, about in HEADS.items():
        network = quantised(name, (HERE / f"{name}.toml").read_text(encoding="utf-8"))
        yield HERE / f"{name}_int8.toml", network.text(about), network.arrays


if __name__ == "__main__":
    for path, text, arrays in files():
        path.write_text(text, encoding="utf-8")
        np.savez_compressed(path.with_suffix(".npz"), **arrays)
