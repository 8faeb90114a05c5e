"""Is the value right of operations under the names that other tools give them?

What each name means stands here once more, in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import systolic
from support.documents import ROOT
from systolic.config import load_run
from systolic.errors import WorkloadError
from systolic.workload import OPERATIONS, GraphBuilder
from systolic.workload.operations.aliases import ALIASES, BY_ATTRIBUTE

Meaning = Callable[..., Any]
_GELU = lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))  # noqa: E731
ONE: dict[str, Meaning] = {
    "relu": lambda x: np.maximum(x, 0), "ramp": lambda x: np.maximum(x, 0),
    "exp": np.exp, "exponential": np.exp, "sqrt": np.sqrt, "square_root": np.sqrt,
    "swish": lambda x: x / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "identity": lambda x: x, "square": np.square, "binary_step": lambda x: np.where(x >= 0, 1, 0),
    "bipolar_step": lambda x: np.where(x >= 0, 1, -1), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh, "gelu": _GELU, "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "log": np.log, "sin": np.sin, "abs": np.abs,
    "sign": np.sign,
    "softplus": lambda x: np.log1p(np.exp(x)), "relu6": lambda x: np.clip(x, 0, 6),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "erf": np.vectorize(math.erf),
    "arctan": np.arctan, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "gelu_erf": np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "round_away": lambda x: np.floor(x + 0.5), "log1p": np.log1p, "expm1": np.expm1,
    "cbrt": np.cbrt, "selu": lambda x: 1.0507009873554805 * x,
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "max": np.max, "reduce_max": np.max, "min": np.min, "reduce_min": np.min,
    "mean": np.mean, "reduce_mean": np.mean, "sum": np.sum, "reduce_sum": np.sum,
    "permute": np.transpose, "copy": lambda x: x,
}  # fmt: skip
TWO: dict[str, Meaning] = {
    "add": np.add, "sub": np.subtract, "subtract": np.subtract, "mul": np.multiply,
    "multiply": np.multiply, "div": np.divide, "divide": np.divide, "pow": np.power,
    "power": np.power, "remainder": np.fmod, "arctan2": np.arctan2,
    "maximum": np.maximum, "minimum": np.minimum,
    "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "less": np.less, "less_equal": np.less_equal,
    **dict.fromkeys(
        ("linear", "dense", "fully_connected", "gemm", "mm", "bmm", "batch_matmul"),
        np.matmul,
    ),
    "cat": lambda x, y: np.concatenate((x, y), 1),
    "concatenate": lambda x, y: np.concatenate((x, y), 1),
}  # fmt: skip
BITS: dict[str, Meaning] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
    "shift_right_logical": lambda x, y: (x.view(np.uint32) >> y.view(np.uint32)).view(np.int32),
}  # fmt: skip
RNG = np.random.default_rng(5)
X, Y = (RNG.uniform(0.1, 8, (4, 4)).astype(np.float32) for _ in range(2))
IMAGE = RNG.standard_normal((1, 4, 4, 8), np.float32)
WEIGHTS = RNG.standard_normal((1, 1, 8, 8), np.float32)
WHOLE = RNG.integers(0, 30, (4, 4)).astype(np.int32), RNG.integers(0, 5, (4, 4)).astype(np.int32)
QUARTERS = IMAGE.reshape(1, 2, 2, 2, 2, 8)


def ran(name: str, *arrays: np.ndarray, out: str, **attributes: Any) -> np.ndarray:
    """Return what the simulated chip makes of arrays under a name."""
    builder, given = GraphBuilder(home="state_buffer"), {}
    for number, array in enumerate(arrays):
        kind = "s32" if array.dtype == np.int32 else "f32" if array.dtype == np.float32 else "pred"
        dims = ",".join(map(str, array.shape))
        given[builder.tensor(f"t{number}", f"{kind}[{dims}]")] = array
    made = builder.add(name, tuple(given), out, **attributes)
    result = systolic.run(builder.graph(), "ideal_4x4", given)
    assert result.summary["values"]["equal"] is True
    return np.asarray(result.outputs[made])


def same(found: np.ndarray, wanted: Any) -> None:
    np.testing.assert_allclose(found.astype(np.float64), np.asarray(wanted, np.float64), 2e-5, 1e-6)


@pytest.mark.parametrize("name", ONE)
def test_of_one_tensor(name: str) -> None:
    wanted = np.asarray(ONE[name](X.astype(np.float64)))
    found = ran(name, X, out=f"f32[{','.join(map(str, wanted.shape))}]")
    same(found, wanted)


@pytest.mark.parametrize("name", TWO)
def test_of_two_tensors(name: str) -> None:
    wanted = np.asarray(TWO[name](X.astype(np.float64), Y.astype(np.float64)))
    kind = "pred" if wanted.dtype == bool else "f32"
    more = {"axis": 1} if name in ("cat", "concatenate") else {}
    same(ran(name, X, Y, out=f"{kind}[{','.join(map(str, wanted.shape))}]", **more), wanted)


@pytest.mark.parametrize("name", BITS)
def test_of_bits(name: str) -> None:
    same(ran(name, *WHOLE, out="s32[4,4]"), BITS[name](*WHOLE))


IMAGES: list[tuple[str, tuple[np.ndarray, ...], str, dict[str, Any], np.ndarray]] = [
    *((n, (IMAGE,), "f32[1,2,2,8]", {"window": (2, 2), "stride": (2, 2)}, QUARTERS.max((2, 4)))
      for n in ("max_pool", "max_pool2d")),
    *((n, (IMAGE,), "f32[1,2,2,8]", {"window": (2, 2), "stride": (2, 2)}, QUARTERS.mean((2, 4)))
      for n in ("avg_pool", "avg_pool2d", "average_pool")),
    *((n, (IMAGE,), "f32[1,8]", {}, IMAGE.mean((1, 2)))
      for n in ("global_avg_pool", "global_average_pool")),
    ("global_max_pool", (IMAGE,), "f32[1,8]", {}, IMAGE.max((1, 2))),
    *((n, (IMAGE, WEIGHTS), "f32[1,4,4,8]", {}, IMAGE @ WEIGHTS[0, 0])
      for n in ("conv", "convolution")),
    *((n, (IMAGE, WEIGHTS), "f32[1,4,4,8]", {}, IMAGE @ WEIGHTS[0, 0])
      for n in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "deconvolution")),
    ("max_pool1d", (IMAGE[0],), "f32[4,2,8]", {"window": (2,), "stride": (2,)},
     IMAGE.reshape(4, 2, 2, 8).max(2)),
    ("avg_pool1d", (IMAGE[0],), "f32[4,2,8]", {"window": (2,), "stride": (2,)},
     IMAGE.reshape(4, 2, 2, 8).mean(2)),
    ("max_pool3d", (IMAGE[None],), "f32[1,1,2,2,8]", {"window": (1, 2, 2), "stride": (1, 2, 2)},
     QUARTERS.max((2, 4))[None]),
    ("avg_pool3d", (IMAGE[None],), "f32[1,1,2,2,8]", {"window": (1, 2, 2), "stride": (1, 2, 2)},
     QUARTERS.mean((2, 4))[None]),
    *((n, (IMAGE,), "f32[1,8,8,8]", {"sizes": (8, 8), "interpolation": "nearest"},
       IMAGE.repeat(2, 1).repeat(2, 2)) for n in ("upsample", "interpolate")),
    *((n, (X, *Y), "f32[4,4]", {}, (X - Y[2]) / np.sqrt(Y[3] + 1e-5) * Y[0] + Y[1])
      for n in ("batchnorm", "batch_normalization")),
    *((n, (X, Y[0], Y[1]), "f32[4,4]", {}, np.broadcast_to(Y[1], (4, 4)))
      for n in ("instancenorm", "instance_normalization")),
    *((n, (X, Y[0], Y[1]), "f32[4,4]", {},
       (X - X.mean(1)[:, None]) / np.sqrt(X.var(1)[:, None] + 1e-5) * Y[0] + Y[1])
      for n in ("groupnorm", "group_normalization")),
    ("clamp", (X,), "f32[4,4]", {"least": 1.0, "most": 4.0}, np.clip(X, 1, 4)),
    *((n, (IMAGE,), "f32[1,128]", {}, IMAGE.reshape(1, 128))
      for n in ("flatten", "view", "squeeze", "unsqueeze", "expand_dims")),
    *((n, (X,), "bf16[4,4]", {}, X) for n in ("convert", "astype")),
    ("embedding", (X,), "f32[3,4]", {"indices": (2, 0, 2)}, X[[2, 0, 2]]),
    ("flip", (X,), "f32[4,4]", {}, X[::-1, ::-1]),
    ("cumsum", (X,), "f32[4,4]", {}, np.cumsum(X, 1)),
    ("cumprod", (X,), "f32[4,4]", {}, np.cumprod(X, 1)),
    ("cummax", (X,), "f32[4,4]", {}, np.maximum.accumulate(X, 1)),
    ("cummin", (X,), "f32[4,4]", {}, np.minimum.accumulate(X, 1)),
    ("topk", (X,), "f32[4,2]", {"k": 2}, np.sort(X, 1)[:, :1:-1]),
    ("reduce_sum_square", (X,), "f32[4]", {"axes": (1,)}, np.square(X).sum(1)),
    ("reduce_l1", (X,), "f32[4]", {"axes": (1,)}, np.abs(X).sum(1)),
    ("reduce_l2", (X,), "f32[4]", {"axes": (1,)}, np.linalg.norm(X, axis=1)),
    ("reduce_log_sum", (X,), "f32[4]", {"axes": (1,)}, np.log(X.sum(1))),
    *((n, (X,), "f32[4]", {"axes": (1,)}, np.log(np.exp(X).sum(1)))
      for n in ("reduce_log_sum_exp", "logsumexp")),
    ("tril", (X,), "f32[4,4]", {"offset": -1}, np.tril(X, -1)),
    ("triu", (X,), "f32[4,4]", {"offset": 1}, np.triu(X, 1)),
    *((n, (X,), "f32[2,4,4]", {}, np.stack([X, X])) for n in ("broadcast_to", "broadcast_in_dim")),
    ("where", (X > 3, X, Y), "f32[4,4]", {}, np.where(X > 3, X, Y)),
    ("requantize", (WHOLE[0], Y[0]), "s8[4,4]", {}, np.rint(WHOLE[0] * Y[0])),
    *((n, (X, Y[0], Y[1]), "f32[4,4]", {},
       (X - X.mean(1)[:, None]) / np.sqrt(X.var(1)[:, None] + 1e-5) * Y[0] + Y[1])
      for n in ("layernorm", "layer_normalization")),
    ("rmsnorm", (X, Y[0]), "f32[4,4]", {},
     X / np.sqrt(np.square(X).mean(1)[:, None] + 1e-5) * Y[0]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arrays", "out", "more", "wanted"), IMAGES)
def test_of_images_and_types(
    name: str, arrays: Any, out: str, more: dict[str, Any], wanted: np.ndarray
) -> None:
    found = ran(name, *arrays, out=out, **more)
    if out.startswith("bf16"):
        np.testing.assert_allclose(found.astype(np.float64), wanted, 2**-8)
    elif out.startswith("s8"):
        np.testing.assert_array_equal(found.astype(int), np.clip(wanted, -128, 127))
    else:
        same(found, wanted)


def test_every_alias_is_tried_above_and_named_on_the_page() -> None:
    tried = {*ONE, *TWO, *BITS, *(row[0] for row in IMAGES)}
    assert tried == {*ALIASES}
    assert not {*ALIASES} & {*OPERATIONS}
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert [name for name in ALIASES if f"`{name}`" not in page] == []


@pytest.mark.parametrize("words", BY_ATTRIBUTE.items())
def test_the_table_s_own_words(words: tuple[str, dict[str, str]]) -> None:
    """An attribute's value has other names as well, alone and in a graph."""
    key, others = words
    kind = {"function": "activation", "operator": "binary", "reduction": "reduce"}[key]
    for other, own in others.items():
        arrays = (X, Y) if kind == "binary" else (X,)
        out = "f32[]" if kind == "reduce" else "f32[4,4]"
        given = [ran(kind, *arrays, out=out, **{key: word}) for word in (other, own)]
        np.testing.assert_array_equal(*given)


def test_alone_in_a_run_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('chip = "ideal_4x4"\n[workload]\nop = "relu"\nshape = "f32[4,4]"\n')
    found = systolic.run(load_run(path, ["workload.data=random"])).outputs["out"]
    assert found.min() == 0
    path.write_text(
        'chip = "ideal_4x4"\n[workload]\nop = "activation"\nfunction = "relu"\nshape = "f32[4,4]"\n'
    )
    again = systolic.run(load_run(path, ["workload.data=random"])).outputs["out"]
    np.testing.assert_array_equal(found, again)


def test_a_settled_attribute_is_refused() -> None:
    builder = GraphBuilder()
    builder.tensor("x", "f32[4,4]")
    text = r'operation "y": function: op = "relu" settles it; op = "activation" takes one'
    with pytest.raises(WorkloadError, match=text):
        builder.relu("x", function="tanh", name="y")  # an alias is a method too


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("transpsoe", 'unknown operation "transpsoe"; perhaps "transpose" was meant'),
        ("reluu", 'unknown operation "reluu"; perhaps "relu" or "relu6" was meant'),
        ("xyzzy", 'unknown operation "xyzzy" ('),
    ],
)
def test_an_unknown_name(name: str, text: str) -> None:
    builder = GraphBuilder()
    builder.tensor("x", "f32[4,4]")
    with pytest.raises(WorkloadError) as refused:
        builder.add(name, ["x"], "f32[4,4]", name="y")
    assert str(refused.value).startswith(f'operation "y": {text}')
