"""Is any cycle's grid right? GridHistory.at against a model that moves every value hop by hop.

The model below knows no closed formula of time: operands, weights and sums are handed from cell to
cell, each hop costing its cycles, and every PE acts on what lies in front of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.spans import Interval
from systolic.trace.grid import GridHistory, GridState
from systolic.trace.passes import GridShape, LoadPass, MatMulPass

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)


@dataclass
class SteppedNode:
    """Every register of every PE, in plain loops. `mail` holds what arrives when and where."""

    history: GridHistory
    weight: dict[tuple[int, int], Any] = field(default_factory=lambda: defaultdict(float))
    shadow: dict[tuple[int, int], Any] = field(default_factory=lambda: defaultdict(float))
    mail: dict[tuple[str, int, int, int], Any] = field(default_factory=dict)

    def run(self, cycles: int) -> list[dict[tuple[int, int], dict[str, Any]]]:
        return [self.step(cycle) for cycle in range(cycles)]

    def step(self, t: int) -> dict[tuple[int, int], dict[str, Any]]:
        self.send_from_buffer(t)
        seen = {}
        for r in range(self.history.shape.rows):
            for c in range(self.history.shape.cols):
                seen[r, c] = self.act(t, r, c)
        return seen

    def send_from_buffer(self, t: int) -> None:
        """Hand what the state buffer reads in cycle t to the rows, each with its skew."""
        s = self.history.shape
        for index, one in enumerate(self.history.matmuls):
            for m in np.flatnonzero(one.injections == t):
                for r in range(s.rows):
                    at = t + s.entry + s.hop[0] * (r // s.cell[0])
                    self.mail["vector", at, r, 0] = (index, int(m))
        for load in self.history.loads:
            for j in np.flatnonzero(load.reads == t):
                self.send_weights(t, load, int(j))

    def send_weights(self, t: int, load: LoadPass, j: int) -> None:
        s = self.history.shape
        K, N = load.weights.shape
        lane = range(j * s.fast_load, (j + 1) * s.fast_load)
        if s.weight_path == "left":
            for r in range(K):
                at = t + s.entry + s.hop[0] * (r // s.cell[0])
                self.mail["load", at, r, 0] = {c: load.weights[r, c] for c in lane if c < N}
        else:
            for c in range(N):
                at = t + s.entry + s.hop[1] * (c // s.cell[1])
                self.mail["load", at, 0, c] = {r: load.weights[r, c] for r in lane if r < K}

    def act(self, t: int, r: int, c: int) -> dict[str, Any]:
        s = self.history.shape
        token = self.mail.pop(("vector", t, r, c), None)
        arriving = self.mail.pop(("load", t, r, c), {})
        above = self.mail.pop(("sum", t, r, c), None)
        state = {"valid": False, "moving": 0, "sum": 0, "vector": -1, "matmul": -1}
        if token is not None:
            self.mail["vector", t + self.hop_right(c), r, c + 1] = token
            exchanges = token[1] == 0 and self.history.matmuls[token[0]].exchange
            if exchanges and s.weight_buffer == "double":
                self.weight[r, c] = self.shadow[r, c]
            state |= self.multiply(token, above, r, c)
            if state["valid"]:
                self.mail["sum", t + self.hop_down(r), r + 1, c] = state["sum"]
        self.take_weight(t, arriving, r, c)
        return state | {"weight": self.weight[r, c], "shadow": self.shadow[r, c]}

    def multiply(self, token: tuple[int, int], above: Any, r: int, c: int) -> dict[str, Any]:
        one = self.history.matmuls[token[0]]
        if c >= one.cols:
            return {}
        x = one.moving[token[1]]
        total = above if above is not None else (0 if one.moving.dtype.kind in "iu" else 0.0)
        state = {"valid": True, "vector": token[1], "matmul": one.instruction, "moving": 0}
        if r < len(x):
            state["moving"] = x[r]
            total = multiply_add(x[r], self.weight[r, c], total, self.history.shape.fused)
        return state | {"sum": total}

    def take_weight(self, t: int, arriving: dict[int, Any], r: int, c: int) -> None:
        s = self.history.shape
        left = s.weight_path == "left"
        mine = c if left else r
        if mine in arriving:
            into = self.shadow if s.weight_buffer == "double" else self.weight
            into[r, c] = arriving[mine]
        if arriving and left:
            self.mail["load", t + self.hop_right(c), r, c + 1] = arriving
        elif arriving:
            self.mail["load", t + self.hop_down(r), r + 1, c] = arriving

    def hop_right(self, c: int) -> int:
        return self.history.shape.hop[1] * ((c + 1) % self.history.shape.cell[1] == 0)

    def hop_down(self, r: int) -> int:
        return self.history.shape.hop[0] * ((r + 1) % self.history.shape.cell[0] == 0)


def multiply_add(x: Any, w: Any, total: Any, fused: bool) -> Any:
    if np.asarray(x).dtype.kind in "iu":
        return (int(total) + int(x) * int(w) + 2**31) % 2**32 - 2**31
    with np.errstate(all="ignore"):
        x, w, total = np.float32(x), np.float32(w), np.float32(total)
        product = x * w
        inputs = [float(x), float(w), float(total)]
        if not fused or not all(map(math.isfinite, inputs)) or 0 in inputs[:2]:
            return total + product
        exact = Fraction(inputs[0]) * Fraction(inputs[1]) + Fraction(inputs[2])
        return nearest(exact) if exact else np.float32(0)


def nearest(exact: Fraction) -> Any:
    """Return the float32 nearest to a number, ties to even, by looking at the neighbours."""
    guess = np.float32(float(exact))
    ways = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    finite = [w for w in ways if np.isfinite(w)]
    best = min(finite, key=lambda w: (abs(Fraction(float(w)) - exact), int(w.view(np.int32)) & 1))
    return np.copysign(best, np.float32(1 if exact > 0 else -1))  # also of what underflows to zero


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Return whether arrays are equal bit for bit; every NaN counts as the same."""
    wanted = wanted.astype(found.dtype)
    np.testing.assert_array_equal(found, wanted)
    if found.dtype.kind == "f":
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(wanted[number]))


def compare(history: GridHistory, cycles: int | None = None) -> None:
    shape = (history.shape.rows, history.shape.cols)
    for cycle, seen in enumerate(SteppedNode(history).run(cycles or history.interval().stop + 2)):
        state = history.at(cycle)
        for name in GridState.__dataclass_fields__:
            wanted = np.array([seen[p][name] for p in np.ndindex(shape)], object).reshape(shape)
            same(getattr(state, name), wanted)


def operand(draw: st.DrawFn, dtype: np.dtype, shape: tuple[int, int]) -> np.ndarray:
    size = math.prod(shape)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers = st.integers(int(limits.min), int(limits.max))
    else:
        numbers = st.one_of(
            st.sampled_from([0.0, -0.0, 1.0, math.inf, math.nan]),
            st.floats(-1e3, 1e3, width=32),
            st.floats(width=32, allow_nan=False, allow_infinity=False).filter(
                lambda v: abs(v) < 1e15
            ),
        )
    values = draw(st.lists(numbers, min_size=size, max_size=size))
    return np.array(values, dtype).reshape(shape)


@st.composite
def histories(draw: st.DrawFn) -> GridHistory:
    cell = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    shape = GridShape(
        rows=cell[0] * draw(st.integers(1, 3)),
        cols=cell[1] * draw(st.integers(1, 3)),
        entry=draw(st.integers(0, 2)),
        hop=(draw(st.integers(1, 2)), draw(st.integers(1, 3))),
        cell=cell,
        fast_load=draw(st.integers(1, 2)),
        weight_path=draw(st.sampled_from(["left", "top"])),
        weight_buffer=draw(st.sampled_from(["double", "single", "serial"])),
        fused=draw(st.booleans()),
    )
    dtype = draw(st.sampled_from([F32, BF16, np.dtype(np.int8), np.dtype(np.int32)]))
    return program(draw, shape, dtype)


def program(draw: st.DrawFn, shape: GridShape, dtype: np.dtype) -> GridHistory:
    """Loads and multiplies in queue order, as early as the contract lets them, or a bit later."""
    slack, v = st.sampled_from([0, 0, 0, 1, 3]), draw(st.integers(1, 2))
    drained = {"double": None, "single": 0, "serial": int(shape.delay()[-1, -1]) + 1}
    loads, matmuls, last_read, e = [], [], -1, None
    for number in range(draw(st.integers(1, 4))):
        K, N = draw(st.integers(1, shape.rows)), draw(st.integers(1, shape.cols))
        L = -(-(N if shape.weight_path == "left" else K) // shape.fast_load)
        earliest = last_read + 1
        if e is not None:
            late = drained[shape.weight_buffer]
            earliest = max(earliest, e[0] if late is None else e[-1] + late)
        gaps = [1 + draw(slack) for _ in range(L)]
        reads = earliest + draw(slack) + np.cumsum(gaps) - gaps[0]
        last_read = int(reads[-1])
        loads.append(LoadPass(2 * number, reads, operand(draw, dtype, (K, N))))
        for turn in range(draw(st.integers(0, 2))):
            k, n = draw(st.integers(1, K)), draw(st.integers(1, N))
            M = draw(st.integers(1, 4))
            first = max(last_read + 1, -1 if e is None else e[-1] + v) + draw(slack)
            e = first + np.cumsum([0] + [v + draw(slack) for _ in range(M - 1)])
            moving = operand(draw, dtype, (M, k))
            matmuls.append(MatMulPass(2 * number + 1, e, moving, n, exchange=turn == 0))
    return GridHistory(shape, tuple(loads), tuple(matmuls))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_any_cycle_equals_the_stepped_model(history: GridHistory) -> None:
    compare(history)


def ideal(rows: int, cols: int, **chip: Any) -> GridShape:
    settings_ = {"entry": 0, "hop": (1, 1), "cell": (1, 1), "fast_load": 1}
    paths = {"weight_path": "left", "weight_buffer": "double"}
    return GridShape(rows, cols, **(settings_ | paths | chip))


def transpose(shape: GridShape, block: np.ndarray, first: int = 0) -> GridHistory:
    K, N = block.shape
    reads, injections = np.arange(N) + first, np.arange(K) + N + first
    load = LoadPass(0, reads, block)
    return GridHistory(
        shape, (load,), (MatMulPass(1, injections, np.eye(K, dtype=block.dtype), N, True),)
    )


@pytest.fixture
def fig3() -> GridHistory:
    return transpose(ideal(4, 4), np.arange(1, 17, dtype=np.float32).reshape(4, 4))


def test_fig3_wavefront_moves_along_the_diagonal(fig3: GridHistory) -> None:
    state = fig3.at(7)
    r, c = np.indices((4, 4))
    np.testing.assert_array_equal(state.valid, r + c <= 3)
    np.testing.assert_array_equal(state.vector, np.where(r + c <= 3, 3 - r - c, -1))
    assert state.sum[3, 0] == 1
    assert fig3.at(13).sum[3, 3] == 16
    assert fig3.interval() == Interval(0, 14)


def test_weights_stand_in_the_shadow_until_the_exchange_passes(fig3: GridHistory) -> None:
    r, c = np.indices((4, 4))
    block = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(fig3.at(3).shadow, np.where(r + 2 * c <= 3, block, 0))
    np.testing.assert_array_equal(fig3.at(6).weight, np.where(r + c <= 2, block, 0))


def test_results_are_the_finished_column_sums(fig3: GridHistory) -> None:
    np.testing.assert_array_equal(fig3.results(0), fig3.loads[0].weights)


def test_vectors_names_pass_and_vector(fig3: GridHistory) -> None:
    matmul, vector = fig3.vectors(9)
    state = fig3.at(9)
    np.testing.assert_array_equal(vector, state.vector)
    np.testing.assert_array_equal(matmul, np.where(state.valid, 0, -1))


def test_nothing_happened_is_an_empty_grid() -> None:
    history = GridHistory(ideal(2, 3))
    assert history.interval() == Interval(0, 0)
    state = history.at(5)
    assert not state.valid.any()
    assert not state.sum.any()
    assert state.weight.shape == (2, 3)


def test_a_stale_nan_below_the_operand_never_shows() -> None:
    full = np.full((3, 2), np.nan, np.float32)
    small = np.ones((1, 2), np.float32)
    ones = np.ones((1, 1), np.float32)
    loads = (LoadPass(0, np.arange(2), full), LoadPass(1, np.arange(2, 4), small))
    history = GridHistory(ideal(3, 2), loads, (MatMulPass(2, np.array([4]), ones, 2, True),))
    assert np.isnan(history.at(8).weight[1:]).any()
    np.testing.assert_array_equal(history.results(0), [[1, 1]])
    compare(history)


def test_floats_and_integers_in_one_run_are_shown_exactly() -> None:
    shape = ideal(2, 2)
    first = transpose(shape, np.array([[1.5, 2], [3, 4]], np.float32))
    second = transpose(shape, np.array([[2**31 - 1, 2], [3, 4]], np.int32), first=2)
    history = GridHistory(shape, first.loads + second.loads, first.matmuls + second.matmuls)
    assert history.at(0).sum.dtype == np.float64
    assert history.at(5).sum[1, 0] == 2**31 - 1
    compare(history)


def test_minus_zero_becomes_plus_zero() -> None:
    history = transpose(ideal(1, 1), np.array([[-0.0]], np.float32))
    assert not np.signbit(history.at(1).sum[0, 0])


def test_fused_rounds_once() -> None:
    x = np.array([[1, 1 + 2**-12]], np.float32)
    w = np.array([[-1], [1 + 2**-12]], np.float32)
    results = {}
    for fused in (False, True):
        shape = ideal(2, 1, fused=fused)
        load = LoadPass(0, np.array([0]), w)
        history = GridHistory(shape, (load,), (MatMulPass(1, np.array([1]), x, 1, True),))
        results[fused] = float(history.results(0)[0, 0])
    assert results == {False: 2**-11, True: 2**-11 + 2**-24}


def test_fused_is_not_fooled_by_a_tie_in_the_wider_type() -> None:
    x = np.array([[1, (1 + 2**-15) * 2**-12]], np.float32)
    w = np.array([[1 + 2**-23], [(1 - 2**-15) * 2**-12]], np.float32)
    load = LoadPass(0, np.array([0]), w)
    history = GridHistory(
        ideal(2, 1, fused=True), (load,), (MatMulPass(1, np.array([1]), x, 1, True),)
    )
    assert float(history.results(0)[0, 0]) == 1 + 2**-23
