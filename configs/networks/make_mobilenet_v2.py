"""Write mobilenet_v2.toml: the same file every time.

    python configs/networks/make_mobilenet_v2.py

MobileNet-V2 (Sandler et al., 2018, arXiv:1801.04381, table 2), one image of 224 x 224, width 1. A
bottleneck expands its channels by a 1 x 1 convolution, filters each channel alone by 3 x 3, and
comes back to few channels by another 1 x 1; if it keeps size and channels, its input is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOTTLENECKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, how many, and the stride of the first, as table 2 has them."""
LAST, CLASSES = 1280, 1000
HEAD = """\
# MobileNet-V2 (Sandler et al., 2018, arXiv:1801.04381, table 2), one image of 224 x 224: 52
# convolutions, 17 of them depthwise, and a product; 300,774,272 multiply-adds. Bias and relu6 leave
# the array with the sums; batch norms are folded into weights and biases. Weights are random, drawn
# with fixed seeds: shapes and work are exact, classes mean nothing. Made by make_mobilenet_v2.py.

description = "MobileNet-V2, one image of 224 x 224, bf16"
chip = "ideal_128x128"

[workload]
home = "dram"
data = "random"
deviation = 0.1

[workload.tensors]
"""


@dataclass
class Network:
    """Tensors and operations as lines of a run file; `now` is what the next layer takes."""

    now: str = "image"
    size: int = 224
    channels: int = 3
    tensors: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)

    def shape(self, dtype: str) -> str:
        """Return the shape of images as they are now."""
        return f"{dtype}[1,{self.size},{self.size},{self.channels}]"

    def tensor(self, name: str, shape: str, deviation: float | None = None) -> str:
        """Add an input; its deviation is the run's if none is given."""
        more = f", deviation = {deviation:.3f}" if deviation else ""
        self.tensors.append(f'{name} = {{ shape = "{shape}"{more} }}')
        return name

    def add(self, op: str, name: str, inputs: tuple[str, ...], out: str, *keys: str) -> str:
        """Add an operation."""
        listed = ", ".join(f'"{each}"' for each in inputs)
        lines = ["[[workload.ops]]", f'op = "{op}"', f'name = "{name}"', f"inputs = [{listed}]"]
        self.operations.append("\n".join([*lines, f'out = "{out}"', *keys]))
        return name

    def convolve(
        self, name: str, window: int, filters: int, stride: int = 1, *, alone: bool = False
    ) -> None:
        """Add a convolution with its bias; alone: each channel has a filter of its own."""
        taken = 1 if alone else self.channels
        deviation = sqrt(2 / (window * window * taken))
        weights = self.tensor(
            f"{name}_weights", f"bf16[{window},{window},{taken},{filters}]", deviation
        )
        bias = self.tensor(f"{name}_bias", f"f32[{filters}]")
        keys = [f"stride = [{stride}, {stride}]"] if stride > 1 else []
        keys += ["padding = [1, 1, 1, 1]"] if window > 1 else []
        keys += [f"groups = {self.channels}"] if alone else []
        self.size, self.channels = (self.size - 1) // stride + 1, filters
        sums = self.add("conv2d", f"{name}_sums", (self.now, weights), self.shape("f32"), *keys)
        self.now = self.add(
            "binary", f"{name}_biased", (sums, bias), self.shape("f32"),
            'operator = "add"', "broadcast_dimensions = [3]",
        )  # fmt: skip

    def relu6(self, name: str) -> None:
        """Cut what was made to 0 to 6, in bf16."""
        out = self.shape("bf16")
        self.now = self.add("activation", name, (self.now,), out, 'function = "relu6"')

    def bottleneck(self, name: str, expansion: int, filters: int, stride: int) -> None:
        """Add a bottleneck, and its input if it keeps size and channels."""
        source, kept = self.now, stride == 1 and self.channels == filters
        if expansion > 1:
            self.convolve(f"{name}_expand", 1, expansion * self.channels)
            self.relu6(f"{name}_expanded")
        self.convolve(f"{name}_depthwise", 3, self.channels, stride, alone=True)
        self.relu6(f"{name}_filtered")
        self.convolve(f"{name}_project", 1, filters)
        if not kept:
            self.now = self.add("cast", name, (self.now,), self.shape("bf16"))
            return
        shortcut = self.add("cast", f"{name}_shortcut", (source,), self.shape("f32"))
        self.now = self.add(
            "binary", name, (self.now, shortcut), self.shape("bf16"), 'operator = "add"'
        )

    def classes(self) -> None:
        """Add the mean of each channel, and the scores of the classes."""
        mean = self.add("reduce", "features", (self.now,), f"bf16[1,{self.channels}]",
                        'reduction = "mean"', "axes = [1, 2]")  # fmt: skip
        weights = self.tensor("class_weights", f"bf16[{self.channels},{CLASSES}]",
                              1 / sqrt(self.channels))  # fmt: skip
        bias, out = self.tensor("class_bias", f"f32[{CLASSES}]"), f"f32[1,{CLASSES}]"
        sums = self.add("matmul", "class_sums", (mean, weights), out)
        self.add("binary", "classes", (sums, bias), out, 'operator = "add"',
                 "broadcast_dimensions = [1]")  # fmt: skip


def blocks() -> Iterator[tuple[str, int, int, int]]:
    """Yield name, expansion, channels and stride of each bottleneck."""
    for stage, (expansion, filters, count, stride) in enumerate(BOTTLENECKS, 1):
        for number in range(1, count + 1):
            yield f"s{stage}b{number}", expansion, filters, stride if number == 1 else 1


def text() -> str:
    """Return the run file."""
    network = Network()
    network.tensor("image", "bf16[1,224,224,3]{2,1,3,0}", 1.0)
    network.convolve("stem", 3, 32, 2)
    network.relu6("stem")
    for block in blocks():
        network.bottleneck(*block)
    network.convolve("last", 1, LAST)
    network.relu6("last")
    network.classes()
    return "\n\n".join([HEAD + "\n".join(network.tensors), *network.operations]) + "\n"


if __name__ == "__main__":
    (HERE / "mobilenet_v2.toml").write_text(text(), encoding="utf-8")
