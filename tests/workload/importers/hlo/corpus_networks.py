"""Networks and pieces of networks, as people write them in jax: the second part of the corpus."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

rng = np.random.default_rng(1)
f = np.float32
NHWC = ("NHWC", "HWIO", "NHWC")


def normal(*s, scale=1.0):
    return (rng.standard_normal(s) * scale).astype(f)


def positive(*s):
    return rng.uniform(0.5, 1.5, s).astype(f)


mods = {}


def mod(*args):
    def d(fn):
        mods[fn.__name__] = (fn, args)
        return fn

    return d


def conv(x, w, stride=1, pad="SAME", **more):
    return lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=NHWC, **more)


@mod(
    normal(1, 8, 8, 3),
    normal(3, 3, 3, 4, scale=0.3),
    normal(3, 3, 4, 8, scale=0.2),
    normal(2, 2, 8, 4, scale=0.3),
    normal(3, 3, 8, 2, scale=0.2),
)
def unet(x, w1, w2, wu, w3):
    a = jax.nn.relu(conv(x, w1))
    b = lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    b = jax.nn.relu(conv(b, w2))
    up = lax.conv_transpose(b, wu, (2, 2), "SAME", dimension_numbers=NHWC)
    return conv(jnp.concatenate([a, up], -1), w3)


@mod(normal(6, 8), normal(8, 4), normal(4, 8, 12, scale=0.3), normal(4, 12, 8, scale=0.3))
def moe(x, wg, w1, w2):
    gates = jax.nn.softmax(x @ wg)
    top, which = lax.top_k(gates, 2)
    top = top / top.sum(-1, keepdims=True)
    mask = jax.nn.one_hot(which, 4)
    weight = jnp.einsum("tk,tke->te", top, mask)
    h = jax.nn.gelu(jnp.einsum("td,edf->etf", x, w1))
    return jnp.einsum("etf,efd,te->td", h, w2, weight)


@mod(normal(2, 6, 6, 8), normal(3, 3, 8, 8, scale=0.2), positive(8), normal(8))
def group_norm_net(x, w, g, b):
    y = conv(x, w).reshape(2, 6, 6, 4, 2)
    m = y.mean((1, 2, 4), keepdims=True)
    v = y.var((1, 2, 4), keepdims=True)
    y = ((y - m) * lax.rsqrt(v + 1e-5)).reshape(2, 6, 6, 8) * g + b
    return jax.nn.silu(y)


@mod(normal(2, 6, 6, 4), positive(4), normal(4))
def instance_norm(x, g, b):
    m = x.mean((1, 2), keepdims=True)
    v = ((x - m) ** 2).mean((1, 2), keepdims=True)
    return (x - m) / jnp.sqrt(v + 1e-5) * g + b


@mod(normal(2, 4, 6, 6), positive(4), normal(4))
def instance_norm_nchw(x, g, b):
    m = x.mean((2, 3), keepdims=True)
    v = x.var((2, 3), keepdims=True)
    return (x - m) * lax.rsqrt(v + 1e-5) * g[:, None, None] + b[:, None, None]


@mod(normal(2, 8, 4, 4), positive(8), normal(8))
def group_norm_nchw(x, g, b):
    y = x.reshape(2, 2, 4 * 4 * 4)
    y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return y.reshape(2, 8, 4, 4) * g[:, None, None] + b[:, None, None]


@mod(
    normal(2, 10),
    normal(10, 2 * 2 * 8, scale=0.4),
    normal(4, 4, 8, 4, scale=0.2),
    normal(4, 4, 4, 1, scale=0.2),
)
def decoder(z, w, k1, k2):
    x = jax.nn.relu(z @ w).reshape(2, 2, 2, 8)
    x = jax.nn.leaky_relu(lax.conv_transpose(x, k1, (2, 2), "SAME", dimension_numbers=NHWC), 0.1)
    return jax.nn.sigmoid(lax.conv_transpose(x, k2, (2, 2), "SAME", dimension_numbers=NHWC))


@mod(normal(5, 2, 6), normal(2, 8), normal(6, 24, scale=0.4), normal(8, 24, scale=0.4), normal(24))
def gru(xs, h, wx, wh, b):
    def step(h, x):
        zr, n = jnp.split(x @ wx + b, [16], -1)
        hr, hn = jnp.split(h @ wh, [16], -1)
        z, r = jnp.split(jax.nn.sigmoid(zr + hr), 2, -1)
        n = jnp.tanh(n + r * hn)
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, h, xs)


@mod(
    normal(3, 2, 8),
    normal(2, 8),
    normal(2, 8),
    normal(8, 32, scale=0.4),
    normal(8, 32, scale=0.4),
    positive(32),
    normal(32),
)
def ln_lstm(xs, h, c, wx, wh, g, b):
    def norm(x):
        m = x.mean(-1, keepdims=True)
        return (x - m) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b

    def step(s, x):
        h, c = s
        i, j, k, o = jnp.split(norm(x @ wx + h @ wh), 4, -1)
        c = jax.nn.sigmoid(k + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(j)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), ys = lax.scan(step, (h, c), xs)
    return ys[-1], c


@mod(
    normal(1, 1, 16),
    normal(16, 16, scale=0.3),
    normal(16, 8, scale=0.3),
    normal(16, 8, scale=0.3),
    normal(1, 8, 2, 4),
    normal(1, 8, 2, 4),
    np.int32(5),
)
def gqa_decode(x, wq, wk, wv, ck, cv, at):
    def turn(y, pos):
        h = y.shape[-1] // 2
        a = pos.astype(f) * jnp.exp(-jnp.arange(h, dtype=f) * 0.5)
        c, s = jnp.cos(a), jnp.sin(a)
        return jnp.concatenate(
            [y[..., :h] * c - y[..., h:] * s, y[..., :h] * s + y[..., h:] * c], -1
        )

    q = turn((x @ wq).reshape(1, 1, 2, 2, 4), at)
    k = turn((x @ wk).reshape(1, 1, 2, 4), at)
    v = (x @ wv).reshape(1, 1, 2, 4)
    ck = lax.dynamic_update_slice(ck, k, (0, at, 0, 0))
    cv = lax.dynamic_update_slice(cv, v, (0, at, 0, 0))
    s = jnp.einsum("bqgrd,bkgd->bgrqk", q, ck) / 2.0
    s = jnp.where(jnp.arange(8) <= at, s, -1e9)
    o = jnp.einsum("bgrqk,bkgd->bqgrd", jax.nn.softmax(s, -1), cv)
    return o.reshape(1, 1, 16), ck, cv


@mod(
    normal(1, 8, 8, 3),
    normal(4, 4, 3, 16, scale=0.2),
    normal(1, 1, 16),
    normal(5, 16, scale=0.2),
    positive(16),
    normal(16),
)
def vit_patches(x, w, cls, pos, g, b):
    y = lax.conv_general_dilated(x, w, (4, 4), "VALID", dimension_numbers=NHWC)
    y = jnp.concatenate([cls, y.reshape(1, 4, 16)], 1) + pos
    m = y.mean(-1, keepdims=True)
    return (y - m) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-6) * g + b


@mod(
    normal(4, 16),
    rng.integers(-127, 128, (16, 8)).astype(np.int8),
    positive(8) * f(0.01),
    normal(8),
)
def quantised_dense(x, w, scale, b):
    s = jnp.max(jnp.abs(x)) / 127.0
    q = jnp.clip(jnp.round(x / s), -127, 127).astype(jnp.int8)
    y = lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return y.astype(f) * (s * scale) + b


@mod(normal(2, 3, 10), normal(2, 3))
def beam_scores(logits, scores):
    total = jax.nn.log_softmax(logits) + scores[..., None]
    flat = total.reshape(2, 30)
    best, at = lax.top_k(flat, 3)
    return best, at // 10, at % 10, jnp.argmax(flat, -1)


@mod(np.array([[1, 1, 0, 1, 1, 0], [1, 0, 0, 1, 1, 1]], bool), normal(2, 6))
def cumsum_mask(m, x):
    at = jnp.cumsum(m.astype(jnp.int32), 1) - 1
    return jnp.where(m, at, 0), jnp.cumsum(x * m, 1), jnp.cumprod(x, 1)


@mod(normal(6, 5), normal(2, 3), np.int32(3), np.int32(1))
def update_slice(x, u, i, j):
    return (
        lax.dynamic_update_slice(x, u, (i, j)),
        lax.dynamic_slice(x, (i, j), (2, 3)),
        lax.dynamic_slice_in_dim(x, i, 2, 0).sum(0),
    )


@mod(normal(12, 8), normal(6, 8), np.array([[3, 1, 7, 0], [11, 2, 2, 5]], np.int32), positive(8))
def embeddings(table, pos, ids, g):
    x = table[ids] + pos[:4]
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


@mod(
    normal(8, 6),
    np.array([0, 2, 1, 3, 3, 0, 2, 1], np.int32),
    normal(6, 4, scale=0.3),
    normal(4),
    np.zeros((6, 4), f),
    np.zeros((6, 4), f),
)
def adam_step(x, y, w, b, m, v):
    def loss(w):
        z = x @ w + b
        picked = jnp.take_along_axis(z, y[:, None], 1)[:, 0]
        return (jax.nn.logsumexp(z, -1) - picked).mean()

    value, g = jax.value_and_grad(loss)(w)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    mh, vh = m / (1 - 0.9), v / (1 - 0.999)
    return value, w - 1e-3 * mh / (jnp.sqrt(vh) + 1e-8), m, v


@mod(
    normal(8, 6),
    np.array([0, 2, 1, 3, 3, 0, 2, 1], np.int32),
    normal(6, 10, scale=0.3),
    normal(10),
    normal(10, 4, scale=0.3),
    normal(4),
)
def adam_onehot(x, y, w1, b1, w2, b2):
    def loss(p):
        w1, b1, w2, b2 = p
        z = jnp.tanh(x @ w1 + b1) @ w2 + b2
        return -(jax.nn.log_softmax(z) * jax.nn.one_hot(y, 4)).sum(-1).mean()

    value, g = jax.value_and_grad(loss)((w1, b1, w2, b2))
    step = lambda p, g: p - 0.01 * g / (jnp.sqrt(g * g) + 1e-4)  # noqa: E731
    return value, *jax.tree.map(step, (w1, b1, w2, b2), g)


@mod(normal(1, 8, 8, 4), normal(3, 3, 1, 4, scale=0.4), normal(1, 1, 4, 8, scale=0.4), normal(8))
def separable(x, wd, wp, b):
    y = jnp.clip(conv(x, wd, 2, feature_group_count=4), 0, 6)
    return jnp.minimum(jax.nn.relu(conv(y, wp) + b), 6)


@mod(normal(1, 10, 10, 2), normal(3, 3, 2, 4, scale=0.3), normal(3, 3, 4, 4, scale=0.3))
def dilated(x, w, v):
    y = jax.nn.relu(conv(x, w, rhs_dilation=(2, 2)))
    return conv(y, v, pad="VALID", rhs_dilation=(3, 3))


@mod(normal(4, 5, 5, 3), positive(3), normal(3), np.zeros(3, f), np.ones(3, f))
def batch_norm_train(x, g, b, mean, var):
    m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
    y = (x - m) * lax.rsqrt(v + 1e-3) * g + b
    return y, 0.99 * mean + 0.01 * m, 0.99 * var + 0.01 * v


@mod(normal(2, 3, 4), normal(4, 5), normal(2, 5, 6), normal(3, 6))
def einsums(a, b, c, d):
    return (
        jnp.einsum("bij,jk,bkl->bil", a, b, c),
        jnp.einsum("bij,bij->b", a, a),
        jnp.einsum("bil,il->bl", jnp.einsum("bij,jk,bkl->bil", a, b, c), d),
        jnp.einsum("bii->bi", jnp.einsum("bij,bkj->bik", a, a)),
        jnp.einsum("ij,kl->ikjl", b, d),
    )


@mod(normal(1, 6, 6, 8), normal(8, 2, scale=0.5), normal(2), normal(2, 8, scale=0.5), normal(8))
def squeeze_excite(x, w1, b1, w2, b2):
    s = x.mean((1, 2))
    s = jax.nn.sigmoid(jax.nn.relu(s @ w1 + b1) @ w2 + b2)
    return x * s[:, None, None, :]


@mod(normal(4, 16), normal(4, 16), positive(16))
def rms_residual(x, r, g):
    x = x + r
    y = x.astype(jnp.float32)
    return (y * lax.rsqrt(jnp.mean(jnp.square(y), -1, keepdims=True) + 1e-6)) * (1 + g), x


@mod(normal(6, 2), normal(2, 8), normal(16, 4, scale=0.3))
def fourier(x, b, w):
    y = 2 * jnp.pi * (x @ b)
    return jnp.concatenate([jnp.sin(y), jnp.cos(y)], -1) @ w


@mod(normal(4, 6), normal(3, 4, 5))
def logsumexps(x, y):
    return (
        jax.nn.logsumexp(x, 1),
        jax.nn.logsumexp(y, (1, 2)),
        jax.nn.logsumexp(y, 0, keepdims=True),
        jnp.logaddexp(x, x[::-1]),
    )


@mod(np.array([0, 3, 2, 5, -1], np.int32), normal(4, 3), np.array([2, 0], np.int32))
def one_hots(i, w, j):
    return jax.nn.one_hot(i, 4), jax.nn.one_hot(i, 4) @ w, jnp.eye(3)[j]


@mod(normal(4, 6), normal(4, 6))
def chains(a, b):
    c = jnp.where(a > 0, jnp.sign(b) * jnp.sqrt(jnp.abs(a)), jnp.clip(b, -1, 0.5))
    d = jnp.where(jnp.abs(b) < 0.5, 0.5 * b * b, jnp.abs(b) - 0.25)
    return (
        jnp.select([a > 1, a > 0, a > -1], [c, d, c + d], 0.0),
        jnp.heaviside(a, 0.5),
        jnp.minimum(jnp.maximum(c, d), 1),
        jnp.nan_to_num(c / d),
    )


@mod(normal(1, 8, 2, 4), normal(1, 8, 2, 4), normal(1, 8, 2, 4))
def linear_attention(q, k, v):
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    kv = jnp.einsum("bshd,bshm->bhdm", k, v)
    z = 1 / (jnp.einsum("bshd,bhd->bsh", q, k.sum(1)) + 1e-6)
    return jnp.einsum("bshd,bhdm,bsh->bshm", q, kv, z)


@mod(
    normal(5, 4),
    normal(4, 3, scale=0.5),
    normal(4, 3, scale=0.5),
    normal(4, scale=0.5),
    positive(4, 3),
)
def mamba_like(x, wb, wc, dt, a):
    delta = jax.nn.softplus(x * dt)

    def step(h, each):
        x, d, b, c = each
        h = jnp.exp(-d[:, None] * a) * h + d[:, None] * b[None] * x[:, None]
        return h, (h * c[None]).sum(-1)

    h, y = lax.scan(step, jnp.zeros((4, 3)), (x, delta, x @ wb, x @ wc))
    return y * jax.nn.silu(x), h


@mod(
    normal(2, 6, 8),
    normal(8, 24, scale=0.4),
    normal(8, 8, scale=0.4),
    normal(8, 16, scale=0.4),
    normal(16, 8, scale=0.4),
    positive(2, 8),
    normal(2, 8),
)
def encoder_layer(x, wqkv, wo, w1, w2, g, b):
    def norm(x, g, b):
        m = jnp.mean(x, -1, keepdims=True)
        v = jnp.mean(jnp.square(x), -1, keepdims=True) - jnp.square(m)
        return (x - m) * lax.rsqrt(v + 1e-5) * g + b

    q, k, v = jnp.split((norm(x, g[0], b[0]) @ wqkv).reshape(2, 6, 2, 12), 3, -1)
    s = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", s, v).reshape(2, 6, 8) @ wo
    return x + jax.nn.gelu(norm(x, g[1], b[1]) @ w1, approximate=False) @ w2


@mod(normal(2, 6, 8), np.array([4, 6], np.int32))
def length_mask(x, n):
    m = jnp.arange(6)[None] < n[:, None]
    s = jnp.einsum("bqd,bkd->bqk", x, x)
    s = jnp.where(m[:, None], s, jnp.finfo(f).min)
    pooled = (x * m[..., None]).sum(1) / n[:, None]
    return jax.nn.softmax(s, -1) @ x, pooled


@mod(normal(2, 8, 8, 3), normal(3, 3, 3, 4, scale=0.3), normal(4), normal(64, 5, scale=0.2),
     np.array([1, 4], np.int32))  # fmt: skip
def cnn_step(x, w, b, v, y):
    def loss(w, b, v):
        h = jax.nn.relu(conv(x, w) + b)
        h = lax.reduce_window(h, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        z = h.reshape(2, 64) @ v
        return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], -1).mean()

    value, g = jax.value_and_grad(loss, (0, 1, 2))(w, b, v)
    return value, w - 0.1 * g[0], b - 0.1 * g[1], v - 0.1 * g[2]


@mod(normal(3, 7), np.array([[0, 2], [1, 1], [6, 3]], np.int32), np.array([2, 0, 1], np.int32))
def gathers(x, i, j):
    return jnp.take_along_axis(x, i, 1), x[j, i[:, 0]], x[j][:, ::2], jnp.take(x, i, axis=1)


@mod(normal(4, 6), np.int32(2))
def switches(x, i):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * x, jnp.abs], x), lax.select(x > 0, x, -x)


@mod(normal(3, 5), normal(3, 5))
def polys(a, b):
    return (
        a**2 + 3 * a * b - b**3,
        jnp.power(jnp.abs(a), 1.7),
        jnp.hypot(a, b),
        jnp.arctan2(a, b),
        jnp.square(a) / (1 + jnp.exp2(b)),
        jnp.mod(a, 0.7),
        jnp.log2(jnp.abs(b) + 1),
        jnp.tan(a / 4),
        jnp.cbrt(b),
    )


@mod(normal(3, 8, 5))
def stats(x):
    return (
        x.std(1),
        x.var((0, 2), ddof=1),
        jnp.ptp(x, 2),
        jnp.argmin(x, 1),
        x.max((0, 1)) - x.min(),
        jnp.linalg.norm(x, axis=-1),
        jnp.median(x[:, :, 0], 1),
    )


@mod(normal(2, 3, 8, 8))
def upsamples(x):
    y = jnp.repeat(jnp.repeat(x, 2, 2), 2, 3)
    return (
        jax.image.resize(x, (2, 3, 12, 12), "nearest"),
        y[..., 1:-1, 1:-1],
        jnp.tile(x, (1, 2, 1, 1))[:, 1:4],
        x.reshape(2, 3, 4, 2, 4, 2).mean((3, 5)),
        jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect"),
        jnp.pad(x[0], ((0, 0), (2, 0), (0, 1)), "edge"),
    )


@mod(
    normal(2, 4, 6).astype(jnp.bfloat16),
    normal(6, 6).astype(jnp.bfloat16),
    positive(6).astype(jnp.bfloat16),
)
def bf16_block(x, w, g):
    y = x.astype(jnp.float32)
    y = y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)
    h = (y.astype(jnp.bfloat16) * g) @ w
    return x + jax.nn.silu(h)


@mod(np.arange(24, dtype=np.int32).reshape(4, 6) - 11, np.array([3, 1, 2, 5], np.int32))
def int_chains(a, b):
    c = jnp.clip(a * b[:, None], -20, 20)
    return (
        c.max(1),
        (c * c).sum(0),
        jnp.where(c > 0, c // 3, -c % 4),
        a.astype(f).mean(),
        (c ^ 5) >> 1,
        c.argmax(1),
    )


@mod(normal(2, 4, 4, 8), normal(8, 16, scale=0.3), normal(16))
def pixel_shuffle(x, w, b):
    y = x @ w + b
    y = y.reshape(2, 4, 4, 2, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(2, 8, 8, 4)
    z = y.reshape(2, 4, 2, 4, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(2, 4, 4, 16)
    return y, z


@mod(normal(4, 6), normal(4, 6), np.float32(0.3))
def newton(a, b, t):
    def body(i, s):
        x, y = s
        x = x - t * jnp.tanh(x * y)
        return x, lax.cond(i % 2 == 0, lambda v: v * 0.5, lambda v: v + 1.0, y)

    return lax.fori_loop(0, 4, body, (a, b))


@mod(normal(5, 4), normal(5, 4))
def cosine_scores(a, b):
    a = a / jnp.linalg.norm(a, axis=-1, keepdims=True)
    b = b / (jnp.linalg.norm(b, axis=-1, keepdims=True) + 1e-8)
    s = a @ b.T / 0.07
    y = jnp.arange(5)
    one = -jnp.diagonal(jax.nn.log_softmax(s, 1)).mean()
    return (one - jax.nn.log_softmax(s, 0)[y, y].mean()) / 2


@mod(normal(1, 6, 6, 4), normal(1, 1, 4, 6, scale=0.4), normal(3, 3, 2, 6, scale=0.3), normal(6))
def grouped(x, w1, w2, b):
    y = jax.nn.hard_swish(conv(x, w1))
    y = conv(y, w2, feature_group_count=3) + b
    return (
        jax.nn.softmax(y.reshape(1, 36, 6), 1),
        jax.nn.hard_tanh(y),
        jax.nn.softplus(y),
        jax.nn.mish(y),
    )
