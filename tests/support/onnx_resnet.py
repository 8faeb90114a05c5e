"""ResNet-18 as an ONNX model of random weights, made by script, and the same graph in NHWC."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from support.onnx_models import model_of
from systolic.workload import GraphBuilder

STAGES = (64, 128, 256, 512)
CLASSES = 1000


class _Network:
    """Writes nodes of a network in NCHW, with batch norms as exporters leave them."""

    def __init__(self, seed: int, divide: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.divide = divide
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def drawn(self, name: str, *dims: int, scale: float = 1.0, mean: float = 0.0) -> str:
        array = self.rng.standard_normal(dims) * scale + mean
        self.constants[name] = array.astype(np.float32)
        return name

    def add(self, kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"/{name}", **attributes))
        return name

    def conv_norm(self, source: str, channels: tuple[int, int], size: int, stride: int,
                  name: str) -> str:  # fmt: skip
        taken, made = channels
        scale = (2 / (taken * size * size)) ** 0.5
        weights = self.drawn(f"{name}.weight", made, taken, size, size, scale=scale)
        pads = [size // 2] * 4
        found = self.add("Conv", [source, weights], f"{name}.conv", strides=[stride, stride],
                         pads=pads, kernel_shape=[size, size])  # fmt: skip
        numbers = [
            self.drawn(f"{name}.gamma", made, scale=0.1, mean=1),
            self.drawn(f"{name}.beta", made, scale=0.1),
            self.drawn(f"{name}.mean", made, scale=0.1),
            self.drawn(f"{name}.var", made, scale=0.05, mean=1),
        ]
        return self.add("BatchNormalization", [found, *numbers], f"{name}.norm")

    def block(self, source: str, channels: tuple[int, int], stride: int, name: str) -> str:
        taken, made = channels
        one = self.conv_norm(source, channels, 3, stride, f"{name}.1")
        one = self.add("Relu", [one], f"{name}.relu1")
        two = self.conv_norm(one, (made, made), 3, 1, f"{name}.2")
        if stride > 1 or taken != made:
            source = self.conv_norm(source, channels, 1, stride, f"{name}.down")
        total = self.add("Add", [two, source], f"{name}.add")
        return self.add("Relu", [total], f"{name}.relu2")


def resnet50(pixels: int = 224) -> Any:
    """Return ResNet-50 for images of so many pixels, in NCHW, random weights."""
    net = _Network(2, 1)
    found = net.conv_norm("image", (3, 64), 7, 2, "stem")
    found = net.add("Relu", [found], "stem.relu")
    found = net.add("MaxPool", [found], "stem.pool", kernel_shape=[3, 3], strides=[2, 2],
                    pads=[1, 1, 1, 1])  # fmt: skip
    taken = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            name, stride = f"layer{stage + 1}.{block}", 2 if stage and not block else 1
            one = net.conv_norm(found, (taken, width), 1, 1, f"{name}.1")
            one = net.add("Relu", [one], f"{name}.relu1")
            two = net.conv_norm(one, (width, width), 3, stride, f"{name}.2")
            two = net.add("Relu", [two], f"{name}.relu2")
            three = net.conv_norm(two, (width, 4 * width), 1, 1, f"{name}.3")
            if not block:
                found = net.conv_norm(found, (taken, 4 * width), 1, stride, f"{name}.down")
            found = net.add("Add", [three, found], f"{name}.add")
            found, taken = net.add("Relu", [found], f"{name}.relu3"), 4 * width
    found = net.add("GlobalAveragePool", [found], "pool")
    found = net.add("Flatten", [found], "flat")
    net.drawn("fc.weight", CLASSES, taken, scale=0.05)
    net.drawn("fc.bias", CLASSES, scale=0.05)
    net.add("Gemm", [found, "fc.weight", "fc.bias"], "scores", transB=1)
    return model_of(net.nodes, {"image": (1, 3, pixels, pixels)}, ("scores",), net.constants)


def resnet18(pixels: int = 224, divide: int = 1) -> Any:
    """Return ResNet-18 for images of so many pixels; divide: all channels by this number."""
    net = _Network(1, divide)
    widths = [each // divide for each in STAGES]
    found = net.conv_norm("image", (3, widths[0]), 7, 2, "stem")
    found = net.add("Relu", [found], "stem.relu")
    found = net.add("MaxPool", [found], "stem.pool", kernel_shape=[3, 3], strides=[2, 2],
                    pads=[1, 1, 1, 1])  # fmt: skip
    taken = widths[0]
    for stage, width in enumerate(widths):
        for block in range(2):
            stride = 2 if stage and not block else 1
            found = net.block(found, (taken, width), stride, f"layer{stage + 1}.{block}")
            taken = width
    found = net.add("GlobalAveragePool", [found], "pool")
    found = net.add("Flatten", [found], "flat")
    net.drawn("fc.weight", CLASSES // divide, taken, scale=0.05)
    net.drawn("fc.bias", CLASSES // divide, scale=0.05)
    net.add("Gemm", [found, "fc.weight", "fc.bias"], "scores", transB=1)
    return model_of(net.nodes, {"image": (1, 3, pixels, pixels)}, ("scores",), net.constants)


def resnet18_by_hand(pixels: int = 224, divide: int = 1, layout: str = "{3,2,1,0}") -> Any:
    """Return the graph of the same network, written in NHWC with batch norms folded.

    layout: how its image lies.
    """
    builder, widths = GraphBuilder(), [each // divide for each in STAGES]
    numbers = iter(range(1000))

    def conv(source: str, taken: int, made: int, size: int, stride: int, side: int) -> str:
        number = next(numbers)
        weights = builder.tensor(f"w{number}", f"f32[{size},{size},{taken},{made}]")
        bias = builder.tensor(f"b{number}", f"f32[{made}]")
        found = builder.conv2d(source, weights, out=f"f32[1,{side},{side},{made}]",
                               stride=(stride, stride), padding=(size // 2,) * 4)  # fmt: skip
        return builder.binary(found, bias, operator="add", broadcast_dimensions=(3,))

    side = pixels // 2
    found = builder.tensor("image", f"f32[1,{pixels},{pixels},3]{layout}")
    found = builder.activation(conv(found, 3, widths[0], 7, 2, side), function="ramp")
    found = builder.pool(found, reduction="max", window=(3, 3), stride=(2, 2),
                         padding=(1, 1, 1, 1))  # fmt: skip
    side //= 2
    taken = widths[0]
    for stage, width in enumerate(widths):
        for block in range(2):
            stride = 2 if stage and not block else 1
            side //= stride
            one = builder.activation(conv(found, taken, width, 3, stride, side), function="ramp")
            two = conv(one, width, width, 3, 1, side)
            if stride > 1 or taken != width:
                found = conv(found, taken, width, 1, stride, side)
            found = builder.activation(builder.binary(two, found, operator="add"), function="ramp")
            taken = width
    found = builder.reduce(found, reduction="mean", axes=(1, 2))
    weights = builder.tensor("fc.weight", f"f32[{taken},{CLASSES // divide}]")
    bias = builder.tensor("fc.bias", f"f32[{CLASSES // divide}]")
    scores = builder.matmul(found, weights, f"f32[1,{CLASSES // divide}]")
    builder.binary(scores, bias, operator="add", broadcast_dimensions=(1,), name="scores")
    return builder.graph()
