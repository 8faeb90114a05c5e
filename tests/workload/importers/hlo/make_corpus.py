"""Makes the corpus of HLO modules: `python make_corpus.py` with jax installed writes it anew.

Each function below is lowered twice, as jax hands it to XLA and as XLA optimises it for a CPU, and
is run by jax on the stored inputs. The tests need the files only, not jax.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from corpus_networks import mods as networks
from jax import lax

rng = np.random.default_rng(0)
f = np.float32


def normal(*s):
    return rng.standard_normal(s).astype(f)


mods = {}


def mod(*args):
    def d(fn):
        mods[fn.__name__] = (fn, args)
        return fn

    return d


@mod(normal(4, 8), normal(8, 16), normal(16), normal(16, 8))
def mlp(x, w1, b1, w2):
    return jax.nn.softmax(jax.nn.gelu(x @ w1 + b1) @ w2)


@mod(normal(2, 2, 8, 4), normal(2, 2, 8, 4), normal(2, 2, 8, 4))
def attn(q, k, v):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    m = jnp.tril(jnp.ones((8, 8), bool))
    s = jnp.where(m, s, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s, -1), v)


@mod(normal(2, 2, 8, 4), normal(2, 2, 8, 4), normal(2, 2, 8, 4))
def attn_finite(q, k, v):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(3.0)
    m = jnp.tril(jnp.ones((8, 8), bool))
    s = jnp.where(m, s, -1e9)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(s, -1), v)


@mod(normal(1, 8, 8, 3), normal(3, 3, 3, 4), normal(4))
def cnn(x, w, b):
    y = (
        lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        + b
    )
    y = jax.nn.relu(y)
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@mod(normal(1, 3, 8, 8), normal(4, 3, 3, 3))
def cnn_nchw(x, w):
    return lax.conv_general_dilated(x, w, (2, 2), "SAME").mean((2, 3))


@mod(normal(1, 8, 8, 4), normal(3, 3, 1, 4))
def depthwise(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=4
    )


@mod(normal(2, 16, 4), normal(3, 4, 8))
def conv1d(x, w):
    return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


@mod(normal(4, 4))
def loop(x):
    return lax.fori_loop(0, 3, lambda i, c: c @ x + i.astype(x.dtype), x)


@mod(normal(6, 5), np.array([1, 2], np.int32))
def take(x, i):
    return jnp.take(x, i, axis=0)


@mod(normal(6, 5))
def argmax(x):
    return jnp.argmax(x, -1)


@mod(normal(6, 5))
def topk(x):
    return lax.top_k(x, 2)


@mod(normal(6, 5))
def cumsum(x):
    return jnp.cumsum(x, 0)


@mod(normal(8, 16), normal(16), normal(16))
def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


@mod(normal(8, 16), normal(16), normal(16))
def layer_norm_var(x, g, b):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


@mod(normal(8, 16), normal(16))
def rms_norm(x, g):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


@mod(normal(8, 16), normal(16, 32), normal(16, 32), normal(32, 16))
def swiglu(x, a, b, c):
    return (jax.nn.silu(x @ a) * (x @ b)) @ c


@mod(normal(1, 8, 2, 4))
def rope(x):
    h = x.shape[-1] // 2
    p = jnp.arange(8)[:, None] * jnp.exp(-jnp.arange(h) / h)[None]
    c, s = jnp.cos(p)[None, :, None], jnp.sin(p)[None, :, None]
    a, b = x[..., :h], x[..., h:]
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


@mod(normal(1, 8, 4, 4), normal(1, 8, 2, 4), normal(1, 8, 2, 4))
def gqa(q, k, v):
    q = q.reshape(1, 8, 2, 2, 4)
    s = jnp.einsum("bqgrd,bkgd->bgrqk", q, k)
    return jnp.einsum("bgrqk,bkgd->bqgrd", jax.nn.softmax(s, -1), v).reshape(1, 8, 4, 4)


@mod(
    rng.integers(-128, 127, (8, 16)).astype(np.int8),
    rng.integers(-128, 127, (16, 8)).astype(np.int8),
)
def int8(a, b):
    return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)


@mod(normal(8, 16).astype(jnp.bfloat16), normal(16, 8).astype(jnp.bfloat16))
def bf16(a, b):
    return jax.nn.relu(a @ b)


@mod(normal(4, 8), normal(2, 8), normal(2, 8), normal(8, 32), normal(8, 32), normal(32))
def lstm(xs, h, c, wx, wh, b):
    def step(s, x):
        h, c = s
        z = x @ wx + h @ wh + b
        i, g, fg, o = jnp.split(z, 4, -1)
        c = jax.nn.sigmoid(fg) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    x3 = jnp.broadcast_to(xs[:, None], (4, 2, 8))
    (h, c), ys = lax.scan(step, (h, c), x3)
    return ys, h, c


@mod(normal(8, 4), normal(4, 3), np.eye(3, dtype=f)[rng.integers(0, 3, 8)])
def train(x, w, y):
    def loss(w):
        return -(jax.nn.log_softmax(x @ w) * y).sum(-1).mean()

    value, g = jax.value_and_grad(loss)(w)
    return value, w - 0.1 * g


@mod(normal(8, 4), normal(4, 6), normal(6, 3), np.eye(3, dtype=f)[rng.integers(0, 3, 8)])
def train2(x, w1, w2, y):
    def loss(p):
        return ((jax.nn.relu(x @ p[0]) @ p[1] - y) ** 2).mean()

    value, g = jax.value_and_grad(loss)((w1, w2))
    return value, w1 - 0.1 * g[0], w2 - 0.1 * g[1]


@mod(normal(4, 6), normal(4, 6))
def where(a, b):
    return jnp.where(a > b, a * 2, b / 3), jnp.clip(a, -0.5, 0.5), jnp.maximum(a, b) ** 3


@mod(normal(4, 6))
def funcs(x):
    return (
        jnp.exp(x),
        jnp.log(jnp.abs(x) + 1),
        jnp.tanh(x),
        jnp.sin(x),
        jnp.sqrt(jnp.abs(x)),
        jax.nn.sigmoid(x),
        jax.nn.softplus(x),
    )


@mod(normal(4, 6))
def funcs2(x):
    return (
        jnp.floor(x),
        jnp.ceil(x),
        jnp.round(x),
        jnp.cos(x),
        lax.erf(x),
        jnp.log1p(jnp.abs(x)),
        jnp.expm1(x),
    )


@mod(normal(4, 6))
def pads(x):
    return jnp.pad(x, ((1, 2), (0, 3))), x[::2, 1:5:2], jnp.concatenate([x, x], 0)


@mod(normal(4, 6))
def flip(x):
    return x[::-1], jnp.flip(x, 1)


@mod(normal(4, 6))
def norms(x):
    return x.sum(0), x.max(1), x.mean(), x.prod(1), jnp.linalg.norm(x)


@mod(normal(2, 3, 4))
def perm(x):
    return x.transpose(2, 0, 1), x.reshape(6, 4).T, jnp.swapaxes(x, 0, 1) + 1


@mod(normal(1, 8, 8, 4), normal(4), normal(4) ** 2, normal(4), normal(4))
def batch_norm(x, m, v, g, b):
    return (x - m) * lax.rsqrt(v + 1e-5) * g + b


@mod(normal(10, 4), np.array([3, 1, 7], np.int32))
def embed(t, i):
    return t[i]


@mod(normal(2, 8, 4), normal(4))
def groups(x, g):
    y = x.reshape(2, 8, 2, 2)
    m = y.mean((1, 3), keepdims=True)
    v = y.var((1, 3), keepdims=True)
    return ((y - m) / jnp.sqrt(v + 1e-5)).reshape(2, 8, 4) * g


@mod(normal(1, 8, 8, 2))
def avgpool(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


@mod(normal(4, 4))
def cond(x):
    return lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x)


@mod(normal(16, 4), normal(16, 4), np.int32(5))
def cache(c, n, i):
    return lax.dynamic_update_slice(c, n[:1], (i, 0))


@mod(
    normal(
        8,
    ),
    normal(
        8,
    ),
)
def dot1(a, b):
    return a @ b


@mod(
    normal(
        8,
    ),
    normal(8, 4),
)
def vecmat(a, b):
    return a @ b


@mod(normal(3, 8, 8), normal(3, 8, 8))
def batched(a, b):
    return a @ b, jnp.einsum("bij,bkj->bik", a, b)


@mod(normal(8, 8))
def resize(x):
    return jax.image.resize(x, (16, 16), "bilinear")


@mod(normal(6, 8), normal(8, 4))
def dropout_like(x, w):
    return jnp.where(jnp.arange(4)[None] < 3, x @ w, 0.0)


@mod(normal(6, 8))
def gelu_exact(x):
    return jax.nn.gelu(x, approximate=False), jax.nn.elu(x), jax.nn.leaky_relu(x, 0.2)


@mod(normal(1, 8, 8, 3), normal(3, 3, 3, 4))
def conv_transpose(x, w):
    return lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@mod(normal(1, 5, 5, 3), normal(2, 2, 3, 4))
def conv_transpose_valid(x, w):
    return lax.conv_transpose(x, w, (3, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@mod(normal(2, 8, 8, 3), normal(3, 3, 3, 4), normal(2, 4, 4, 4))
def conv_grads(x, w, g):
    def f(x, w):
        return lax.conv_general_dilated(
            x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    _y, b = jax.vjp(f, x, w)
    return b(g)


@mod(normal(1, 4, 6, 6, 2), normal(3, 3, 3, 2, 4))
def conv3d(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 2, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
    )


@mod(normal(4, 6))
def interior(x):
    return lax.pad(x, np.float32(7), ((1, -1, 2), (-1, 2, 1)))


@mod(normal(4, 16), np.array([3, 1, 0, 2], np.int32))
def xent(x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()


@mod(normal(4, 8, 16), normal(16), normal(16))
def ln3(x, g, b):
    return jax.nn.standardize(x) * g + b


@mod(normal(5, 6))
def trilu(x):
    return jnp.tril(x), jnp.triu(x, 1)


@mod(
    normal(5, 6),
    normal(
        6,
    ),
)
def loops(x, h):
    def step(h, x):
        h = jnp.tanh(h + x)
        return h, h.sum()

    return lax.scan(step, h, x)


@mod(normal(5, 6))
def whiles(x):
    return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))


@mod(normal(3, 4), normal(3, 4))
def logic(a, b):
    return (
        (a > 0) & (b > 0),
        jnp.any(a > 1),
        jnp.all(b < 2, 1),
        jnp.isnan(a),
        jnp.isfinite(b),
        jnp.sign(a),
    )


@mod(np.arange(12, dtype=np.int32).reshape(3, 4), np.arange(1, 13, dtype=np.int32).reshape(3, 4))
def ints(a, b):
    return a // b, a % b, a << 1, a & b, ~a, jnp.abs(a - 6), jnp.maximum(a, b), a.sum(0)


@mod(normal(3, 4).astype(jnp.bfloat16))
def bf16s(a):
    return jax.nn.softmax(a), jax.nn.gelu(a), a.sum(), a * 2 + 1


@mod(normal(2, 3, 8, 8), normal(16, 3, 3, 3), normal(16), normal(16) ** 2, normal(16), normal(16))
def convbn(x, w, m, v, g, b):
    return jax.nn.relu(
        (lax.conv_general_dilated(x, w, (1, 1), "SAME") - m[:, None, None])
        / jnp.sqrt(v + 1e-5)[:, None, None]
        * g[:, None, None]
        + b[:, None, None]
    )


def main() -> None:
    folder, arrays = Path(__file__).parent / "corpus", {}
    folder.mkdir(exist_ok=True)
    for name, (function, args) in (mods | networks).items():
        jitted = jax.jit(function)
        lowered, outputs = jitted.lower(*args), jax.tree.leaves(jitted(*args))
        (folder / f"{name}.hlo").write_text(lowered.as_text("hlo"))
        (folder / f"{name}.optimised.hlo").write_text(
            lowered.compile().as_text().replace(f"{Path(__file__).parent}/", "")
        )
        for side, given in (("in", args), ("out", outputs)):
            for number, array in enumerate(given):
                wide = np.asarray(array)
                wide = wide.astype(np.float32) if wide.dtype == jnp.bfloat16 else wide
                arrays[f"{name}/{side}{number}"] = wide
    np.savez_compressed(folder / "values.npz", **arrays)


if __name__ == "__main__":
    main()
