"""Values of collectives against numpy, their stated orders, and both models on their messages."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

import systolic.network as net
from systolic.errors import ConfigError
from systolic.network.collectives.algorithms import ALGORITHMS
from systolic.network.collectives.collective import slice_bounds

SHAPES = {2: (2,), 3: (3,), 4: (2, 2), 5: (5,), 6: (3, 2), 8: (2, 2, 2)}
CASES = [
    (operation, algorithm, ranks)
    for operation, known in ALGORITHMS.items()
    for algorithm in known
    for ranks in SHAPES
    if algorithm != "halving_doubling" or ranks & (ranks - 1) == 0
]


def expected(operation, arrays, root):
    every, ranks = np.array(arrays), len(arrays)
    if operation == "all_reduce":
        return [every.sum(0)] * ranks
    if operation == "all_gather":
        return [every.ravel()] * ranks
    if operation == "reduce_scatter":
        return np.split(every.sum(0), ranks)
    if operation == "broadcast":
        return [every[root]] * ranks
    if operation == "all_to_all":
        parts = every.reshape(ranks, ranks, -1)
        return [parts[:, rank].ravel() for rank in range(ranks)]
    return list(np.roll(every, 1, axis=0))


@pytest.mark.parametrize(("operation", "algorithm", "ranks"), CASES)
def test_values(operation, algorithm, ranks):
    rng = np.random.default_rng(ranks)
    arrays = [rng.integers(-(1 << 40), 1 << 40, ranks * 12) for _ in range(ranks)]
    for slices in (1, 3):
        for root in (0, ranks - 1):
            found = net.exchange(
                operation, arrays, algorithm, shape=SHAPES[ranks], slices=slices, root=root
            )
            for one, other in zip(found, expected(operation, arrays, root), strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "tree", "direct"])
def test_sums_are_made_in_the_stated_order(algorithm):
    """Floats, whose sums depend on the order; the order is written out here once more."""
    rng = np.random.default_rng(1)
    ranks, size = 8, 40
    arrays = [
        (rng.standard_normal(size) * 10.0 ** rng.integers(0, 8)).astype("f4") for _ in range(ranks)
    ]
    found = net.exchange("all_reduce", arrays, algorithm)
    chunks = [slice(c * size // ranks, (c + 1) * size // ranks) for c in range(ranks)]
    wanted = np.empty(size, "f4")
    for number, place in enumerate(chunks):
        parts = [each[place] for each in arrays]
        wanted[place] = ORDERS[algorithm](parts, number)
    assert all((each == wanted).all() for each in found)
    assert (wanted != np.sum(arrays, axis=0)).any() or algorithm == "direct"


def pairs(parts, distances):
    """Add partners at each distance, the lower rank first."""
    for distance in distances:
        parts = [
            parts[min(r, r ^ distance)] + parts[max(r, r ^ distance)] for r in range(len(parts))
        ]
    return parts[0]


ORDERS = {
    "ring": lambda parts, c: reduce(np.add, [*parts[c:], *parts[:c]]),
    "halving_doubling": lambda parts, c: pairs(parts, (4, 2, 1)),
    "tree": lambda parts, c: pairs(parts, (1, 2, 4)),
    "direct": lambda parts, c: reduce(np.add, parts),
}


def test_a_torus_adds_along_x_then_along_y_in_the_first_half():
    rng = np.random.default_rng(2)
    nx, ny, size = 3, 2, 36
    arrays = [
        (rng.standard_normal(size) * 10.0 ** rng.integers(0, 6)).astype("f4") for _ in range(6)
    ]
    found = net.exchange("all_reduce", arrays, "torus", shape=(nx, ny))[0]
    grid = np.array(arrays).reshape(ny, nx, size)
    for chunk in range(6):  # of the first half: chunk x * ny + y goes around x, then around y
        x, y = divmod(chunk, ny)
        place = slice(chunk * 3, chunk * 3 + 3)
        rows = [reduce(np.add, np.roll(grid[row, :, place], -x, axis=0)) for row in range(ny)]
        np.testing.assert_array_equal(found[place], reduce(np.add, rows[y:] + rows[:y]))


@pytest.mark.parametrize("operation", ALGORITHMS)
def test_both_models_agree_on_their_messages(operation):
    wires = {"bytes_per_cycle": 4, "latency_cycles": 6, "slots": 3, "hop_cycles": 1}
    table = {"kind": "torus", "shape": [2, 2], "link": wires, "packet_bytes": 24}
    for algorithm in ALGORITHMS[operation]:
        cycles = [
            net.collective(
                table, operation, algorithm, size_bytes=900, slices=3, alpha_cycles=4, engine=engine
            )
            for engine in ("event", "stepped")
        ]
        assert cycles[0] == cycles[1], algorithm


def test_slices_cover_the_data_and_are_nearly_equal():
    for size in range(60):
        for chunks, slices in ((1, 1), (3, 2), (4, 4), (5, 3)):
            bounds = slice_bounds(size, chunks, slices)
            assert (bounds[0], bounds[-1], len(bounds)) == (0, size, chunks * slices + 1)
            assert np.ptp(np.diff(bounds)) <= 2
            assert (np.diff(bounds) >= 0).all()


RING = {"kind": "ring", "shape": [3], "link": {"bytes_per_cycle": 1, "latency_cycles": 1}}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"operation": "all_redce"}, 'no operation "all_redce" (there are: all_reduce, all_gather, '
         'reduce_scatter, broadcast, all_to_all, send_receive); perhaps "all_reduce" was meant'),
        ({"algorithm": "rng"}, 'no algorithm "rng" for all_reduce (there are: ring, torus, '
         'halving_doubling, tree, direct); perhaps "ring" was meant'),
        ({"algorithm": "halving_doubling"}, "halving_doubling needs a power of two of ranks, found "
         "3; ring and direct take any number"),
        ({"size_bytes": 0}, "size_bytes: needs an integer >= 1, found 0"),
        ({"size_bytes": 5, "slices": 2}, "size_bytes: 5 bytes are cut into 3 chunks of 2 slices, "
         "which needs 6 bytes or more"),
        ({"alpha_cycles": -1}, "alpha_cycles: needs an integer >= 0, found -1"),
        ({"operation": "broadcast", "root": 3}, "root: no rank 3 (there are 0 to 2)"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, text):
    given = {"operation": "all_reduce", "size_bytes": 6, **arguments}
    with pytest.raises(ConfigError) as error:
        net.collective(RING, given.pop("operation"), **given)
    assert str(error.value) == f"collective: {text}"


def test_a_torus_needs_one():
    clos = {"kind": "clos", "leaves": 2, "hosts": 2, "spines": 1, "link": RING["link"]}
    with pytest.raises(ConfigError, match=r"^collective: torus needs a network of kind torus$"):
        net.collective(clos, "all_reduce", "torus", size_bytes=16)
