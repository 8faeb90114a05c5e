"""Makes the networks of `models/`: `python make_models.py` with torch, onnxscript and onnx.

Three are trained on the digits and exported by PyTorch; three are written node by node, as tools
that quantise or fuse write them. The tests need the files only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

ROOT = Path(__file__).parents[4]
FOLDER = Path(__file__).parent / "models"
DATA = ROOT / "configs" / "data"
STEPS = 400


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return images [n, 8, 8] from 0 to 1, and their labels."""
    images = np.loadtxt(DATA / "digits.csv", delimiter=",", dtype=np.float32)
    labels = np.loadtxt(DATA / "digits_labels.csv", delimiter=",", dtype=np.int64)
    scale = max(float(images.max()), 1.0)
    return torch.tensor(images.reshape(-1, 8, 8) / scale), torch.tensor(labels.reshape(-1))


class ResidualCnn(nn.Module):
    """Convolutions with batch norm, a shortcut, a pool, and a squeeze-excite."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.block = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=4, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
            nn.Conv2d(16, 16, 1),
        )
        self.squeeze = nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 16), nn.Sigmoid())
        self.last = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.first(images[:, None])
        y = self.block(x)
        y = y * self.squeeze(y.mean((2, 3)))[:, :, None, None]
        x = nn.functional.max_pool2d(torch.relu(x + y), 2)
        return self.last(nn.functional.avg_pool2d(x, 4).flatten(1))


class RowLstm(nn.Module):
    """Reads an image row by row, forwards and backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
        self.last = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(images)
        return torch.log_softmax(self.last(states.mean(1)), -1)


class Vit(nn.Module):
    """Patches of 2 x 2, a token of the class, and two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 16, 2, 2)
        self.token = nn.Parameter(torch.zeros(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.last = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patch(images[:, None]).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.last(self.norm(self.layers(x)[:, 0]))


def trained(module: nn.Module) -> nn.Module:
    images, labels = digits()
    optimiser = torch.optim.Adam(module.parameters(), 5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        some = torch.randint(0, len(images), (64,), generator=generator)
        loss = nn.functional.cross_entropy(module(images[some]), labels[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    module.eval()
    right = (module(images).argmax(1) == labels).float().mean()
    print(f"{type(module).__name__}: {right:.1%} of the images that it was trained on")
    return module


def export(name: str, module: nn.Module) -> None:
    images, _ = digits()
    program = torch.onnx.export(
        module, (images[:4],), dynamo=True, input_names=["images"], output_names=["scores"]
    )
    save(name, program.model_proto)


def save(name: str, model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model)
    for node in model.graph.node:
        del node.metadata_props[:]  # lines of the machine that exported it
    del model.graph.metadata_props[:], model.graph.value_info[:], model.metadata_props[:]
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())


class Nodes:
    """Collects nodes and weights of a graph."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes) -> str | list[str]:
        names = [f"{kind.lower()}_{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, names[0], **attributes))
        return names[0] if outputs == 1 else names

    def given(self, array: np.ndarray) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *dims: int, scale: float = 1.0) -> str:
        return self.given((self._rng.standard_normal(dims) * scale).astype(np.float32))

    def integers(self, low: int, high: int, *dims: int, dtype=np.int8) -> str:
        return self.given(self._rng.integers(low, high, dims).astype(dtype))

    def conv(self, x: str, filters: int, channels: int, size: int, **more) -> str:
        scale = (channels * size * size) ** -0.5
        weights = self.normal(filters, channels, size, size, scale=scale)
        return self.add("Conv", x, weights, self.normal(filters, scale=0.1), **more)

    def model(self, inputs: dict, outputs: dict, opset: int) -> onnx.ModelProto:
        ends = [
            [helper.make_tensor_value_info(n, kind, dims) for n, (kind, dims) in each.items()]
            for each in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "graph", *ends, self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9
        )


def detector_head() -> onnx.ModelProto:
    """Two scales of features: the coarse one is resized and joined, as in a feature pyramid."""
    n = Nodes(1)
    fine = n.add("LeakyRelu", n.conv("fine", 8, 6, 1), alpha=0.1)
    coarse = n.add("LeakyRelu", n.conv("coarse", 8, 12, 1), alpha=0.1)
    scales = n.given(np.array([1, 1, 2, 2], np.float32))
    wide = n.add("Resize", coarse, "", scales, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")  # fmt: skip
    joined = n.add("Concat", wide, fine, axis=1)
    swish = n.conv(joined, 16, 16, 3, pads=[1, 1, 1, 1])
    swish = n.add("Mul", swish, n.add("Sigmoid", swish))
    boxes = n.conv(swish, 2 * 7, 16, 1)
    seen = n.add("Reshape", boxes, n.given(np.array([1, 2, 7, 8, 8])))
    seen = n.add("Transpose", seen, perm=[0, 1, 3, 4, 2])
    xy, wh, scores = n.add("Split", n.add("Sigmoid", seen), n.given(np.array([2, 2, 3])),
                           outputs=3, axis=-1)  # fmt: skip
    rows, cols = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    grid = n.given(np.stack([cols, rows], -1).astype(np.float32).reshape(1, 1, 8, 8, 2))
    two, half = n.given(np.float32(2)), n.given(np.float32(0.5))
    xy = n.add("Mul", n.add("Add", n.add("Sub", n.add("Mul", xy, two), half), grid), two)
    anchors = n.given(np.array([[2, 3], [5, 4]], np.float32).reshape(1, 2, 1, 1, 2))
    wh = n.add("Mul", n.add("Pow", n.add("Mul", wh, two), two), anchors)
    whole = n.add("Concat", xy, wh, scores, axis=-1)
    n.nodes.append(
        helper.make_node("Reshape", [whole, n.given(np.array([1, -1, 7]))], ["boxes"], "boxes")
    )
    kind = TensorProto.FLOAT
    return n.model(
        {"fine": (kind, [1, 6, 8, 8]), "coarse": (kind, [1, 12, 4, 4])},
        {"boxes": (kind, [1, 128, 7])},
        17,
    )


def quantised_block() -> onnx.ModelProto:
    """A MobileNet block in integers: 1 x 1, depthwise, 1 x 1, and the shortcut."""
    n = Nodes(2)

    def scale(value: float | np.ndarray) -> str:
        return n.given(np.asarray(value, np.float32))

    def zero(value: int, dtype: type = np.uint8) -> str:
        return n.given(np.asarray(value, dtype))

    def conv(x: list[str], filters: int, channels: int, size: int, step: float, at: int, **more):
        weights = n.integers(-127, 128, filters, channels, size, size)
        each = scale(np.linspace(0.5, 1.5, filters) * 0.02 / (channels**0.5 * size))
        zeros = zero(np.zeros(filters), np.int8)
        out = [scale(step), zero(at)]
        bias = n.integers(-500, 500, filters, dtype=np.int32)
        y = n.add("QLinearConv", *x, weights, each, zeros, *out, bias, **more)
        return [y, *out]

    start = [scale(0.02), zero(128)]
    x = [n.add("QuantizeLinear", "image", *start), *start]
    wide = conv(x, 24, 8, 1, 0.024, 0)
    deep = conv(wide, 24, 1, 3, 0.03, 0, pads=[1, 1, 1, 1], group=24)
    thin = conv(deep, 8, 24, 1, 0.05, 120)
    both = n.add("Add", n.add("DequantizeLinear", *thin), n.add("DequantizeLinear", *x))
    again = [scale(0.0613), zero(125)]  # sums of the steps 0.05 and 0.02 are no ties
    y = n.add("QuantizeLinear", both, *again)
    pooled = n.add("GlobalAveragePool", n.add("DequantizeLinear", y, *again))
    n.nodes.append(helper.make_node("Flatten", [pooled], ["features"], "features"))
    kind = TensorProto.FLOAT
    return n.model({"image": (kind, [1, 8, 8, 8])}, {"features": (kind, [1, 8])}, 17)


def text_encoder() -> onnx.ModelProto:
    """Tokens and a mask of those that count: embeddings, a layer of attention, a mean, a norm."""
    n = Nodes(3)
    tokens, width, heads, words = 10, 16, 2, 40

    def dense(x: str, inputs: int, outputs: int) -> str:
        weights = n.normal(inputs, outputs, scale=inputs**-0.5)
        return n.add("Add", n.add("MatMul", x, weights), n.normal(outputs, scale=0.1))

    def norm(x: str) -> str:
        return n.add("LayerNormalization", x, n.normal(width), n.normal(width), epsilon=1e-6)

    def split(x: str, order: list[int]) -> str:
        dims = n.given(np.array([0, 0, heads, width // heads]))
        return n.add("Transpose", n.add("Reshape", x, dims), perm=order)

    x = n.add("Add", n.add("Gather", n.normal(words, width), "ids"), n.normal(1, tokens, width))
    x = norm(x)
    q, k, v = (dense(x, width, width) for _ in range(3))
    scores = n.add("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
    scores = n.add("Div", scores, n.given(np.float32((width / heads) ** 0.5)))
    counts = n.add("Cast", "mask", to=TensorProto.FLOAT)
    hidden = n.add("Sub", n.given(np.float32(1)), counts)
    hidden = n.add("Unsqueeze", hidden, n.given(np.array([1, 2])))
    scores = n.add("Add", scores, n.add("Mul", hidden, n.given(np.float32(-10000))))
    mixed = n.add("MatMul", n.add("Softmax", scores, axis=-1), split(v, [0, 2, 1, 3]))
    mixed = n.add("Reshape", n.add("Transpose", mixed, perm=[0, 2, 1, 3]),
                  n.given(np.array([0, 0, width])))  # fmt: skip
    x = norm(n.add("Add", x, dense(mixed, width, width)))
    x = norm(n.add("Add", x, dense(n.add("Gelu", dense(x, width, 48)), 48, width)))
    column = n.add("Unsqueeze", counts, n.given(np.array([2])))
    axis = n.given(np.array([1]))
    total = n.add("ReduceSum", n.add("Mul", x, column), axis, keepdims=0)
    many = n.add("ReduceSum", column, axis, keepdims=0)
    mean = n.add("Div", total, n.add("Max", many, n.given(np.float32(1e-9))))
    length = n.add("ReduceL2", mean, n.given(np.array([1])), keepdims=1)
    n.nodes.append(helper.make_node("Div", [mean, length], ["embedding"], "embedding"))
    return n.model(
        {"ids": (TensorProto.INT64, [2, tokens]), "mask": (TensorProto.INT64, [2, tokens])},
        {"embedding": (TensorProto.FLOAT, [2, width])},
        20,
    )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, kind in (("digits_cnn", ResidualCnn), ("digits_lstm", RowLstm), ("digits_vit", Vit)):
        torch.manual_seed(0)
        export(name, trained(kind()))
    for make in (detector_head, quantised_block, text_encoder):
        save(make.__name__, make())


if __name__ == "__main__":
    main()
