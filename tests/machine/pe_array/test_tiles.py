"""Do tiles of the array multiply side by side, each with its weights, and what do they wait for?

Both engines. The values' oracle is numpy in the order of the rows; times are worked out by hand,
and in chains from what was published. Random programs hold the engines against one another.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from support.blocks import psum, state
from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.tiers import quick_first
from systolic.critical_path.causes import Causes
from systolic.critical_path.points import Lives
from systolic.errors import ProgramError, SystolicError
from systolic.hw.spec import Chip
from systolic.isa import (
    Copy,
    LoadTile,
    LoadWeights,
    MatMul,
    MatMulTile,
    Post,
    Program,
    Wait,
    check_program,
    decode,
    encode,
    format_text,
    lint,
    parse_text,
)
from systolic.isa.formats.module import Module
from systolic.machine import Image, Memory, simulate
from systolic.machine.register.machine import run_register
from systolic.machine.spared import Spared
from systolic.report.wavefront.moments import moments
from systolic.report.wavefront.picture import plot_wavefront, require_whole
from systolic.run.busy import busy_cycles
from systolic.trace.recorder import Recorder
from systolic.trace.words import KINDS

both = pytest.mark.parametrize("engine", ["event", "register"])
SIZES = {"tile_sizes": [[2, 2], [2, 4], [4, 2]]}
BANK = 8192
"""Bytes of a bank of the state buffer of the ideal chip."""


def chip(**array: Any) -> Chip:
    return ideal_chip(4, 4, pe_array={**SIZES, **array})


def load(
    row: int, col: int, size: tuple[int, int] = (2, 2), bank: int = 0, **keys: Any
) -> LoadTile:
    """Return the load of a whole tile; the weights lie in a bank of their own."""
    weights = state(row, size[0], bank * BANK, size[1])
    return LoadTile(weights=weights, tile_size=size, tile_position=(row, col), **keys)


def multiply(
    row: int, col: int, size: tuple[int, int] = (2, 2), bank: int = 4, **keys: Any
) -> MatMulTile:
    """Return a multiply of 3 vectors on a whole tile, to a bank of results of its own."""
    found = {
        "moving": state(row, size[0], bank * BANK, 3),
        "result": psum(col, size[1], 512 * (bank % 4), 3),
        "tile_size": size,
        "tile_position": (row, col),
    }
    return MatMulTile(**{**found, **keys})


def run(engine: Any, *instructions: Any, images: Any = (), on: Any = None, **keys: Any) -> Any:
    program = Program("tiles", instructions, ("s0", "s1"))
    return simulate(on or chip(), program, list(images), engine=engine, **keys)


def times_of(outcome: Any) -> list[tuple[int, int, int]]:
    return [(each.start, each.last, each.done) for each in sorted(outcome.trace.times, key=_number)]


def _number(times: Any) -> int:
    return times.instruction


QUADRANTS = list(product((0, 2), (0, 2)))
LOADS = [load(r, c, bank=n) for n, (r, c) in enumerate(QUADRANTS)]
MULTIPLIES = [multiply(r, c, bank=4 + n) for n, (r, c) in enumerate(QUADRANTS)]


@both
def test_four_tiles_load_and_multiply_side_by_side(engine):
    """All load in 0 and 1, and inject in 2, 3 and 4.

    A vector takes the way of the whole array: it is in PSUM partition c 3 + c cycles later.
    """
    outcome = run(engine, *LOADS, *MULTIPLIES)
    assert times_of(outcome)[:4] == [(0, 1, 1)] * 4
    assert times_of(outcome)[4:] == [(2, 4, 4 + 3 + 1), (2, 4, 4 + 3 + 3)] * 2
    assert outcome.trace.cycles() == 11


@both
def test_values_are_each_tiles_own(engine):
    """Each in the order of the tile's rows; a tile of the upper rows passes the lower ones by."""
    rng = np.random.default_rng(3)
    images, expected = [], []
    for number, (row, _) in enumerate(QUADRANTS):
        weights, vectors = rng.standard_normal((2, 2, 3)).astype(np.float32)
        images += [
            Image(state(row, 2, number * BANK, 2), weights[:, :2]),
            Image(state(row, 2, (4 + number) * BANK, 3), vectors),
        ]
        sums = np.zeros((2, 3), np.float32)
        for k in range(2):
            sums += weights[k, :2, None] * vectors[k]
        expected.append(sums)
    found = run(engine, *LOADS, *MULTIPLIES, images=images).memory
    for number, (_, col) in enumerate(QUADRANTS):
        assert (found.read(psum(col, 2, 512 * number, 3)) == expected[number]).all()


@both
def test_a_load_leaves_the_weights_of_other_tiles_alone(engine):
    """The second multiply of the first tile still has its weights, 1, after a load of 2s."""
    ones, twos = np.full((2, 2), 1, np.float32), np.full((2, 2), 2, np.float32)
    images = [
        Image(state(0, 2, 0, 2), ones),
        Image(state(0, 2, BANK, 2), twos),
        Image(state(0, 2, 4 * BANK, 3), np.ones((2, 3), np.float32)),
    ]
    again = multiply(0, 0, result=psum(0, 2, 3, 3))
    other = multiply(0, 2, result=psum(2, 2, 0, 3))
    outcome = run(engine, LOADS[0], multiply(0, 0), LOADS[1], other, again, images=images)
    found = [outcome.memory.read(each.result).tolist() for each in (again, other)]
    assert found == [[[2.0] * 3] * 2, [[4.0] * 3] * 2]


@both
def test_tiles_that_share_pes_wait_for_one_another(engine):
    """The whole array's multiply waits for both tiles, and the next load of a tile for it.

    Loads 0 and 1; the tiles inject in 2 to 4. The load of all, 4 cycles, begins with their first
    injections (2 to 5); its multiply in 6, and so does the load of the tile that is loaded again.
    """
    whole = LoadWeights(weights=state(0, 4, 2 * BANK, 4))
    of_all = MatMul(moving=state(0, 4, 6 * BANK, 3), result=psum(0, 4, 1024, 3))
    outcome = run(engine, *LOADS[:2], *MULTIPLIES[:2], whole, of_all, LOADS[3])
    starts = [start for start, _, _ in times_of(outcome)]
    assert starts == [0, 0, 2, 2, 2, 6, 6]


@both
@pytest.mark.parametrize(("bank", "start"), [(4, 5), (6, 2)])
def test_tiles_below_one_another_take_turns_at_a_bank_of_results(engine, bank, start):
    """To one bank the lower tile injects behind the last vector of the upper one, else beside."""
    lower = multiply(2, 0, bank=6, result=psum(0, 2, 512 * (bank % 4), 3), accumulate=bank == 4)
    outcome = run(engine, LOADS[0], LOADS[2], MULTIPLIES[0], lower)
    assert [each[0] for each in times_of(outcome)] == [0, 0, 2, start]


@both
def test_tiles_of_other_columns_have_the_same_bank_of_results_at_once(engine):
    beside = multiply(2, 2, bank=7, result=psum(2, 2, 0, 3))
    outcome = run(engine, LOADS[0], LOADS[3], MULTIPLIES[0], beside)
    assert [each[0] for each in times_of(outcome)] == [0, 0, 2, 2]


@both
def test_sums_of_two_tiles_are_added_in_the_order_of_the_queue(engine):
    """K of 4 in two halves, the lower rows onto the upper ones' sums: one rounding more."""
    rng = np.random.default_rng(8)
    weights = rng.standard_normal((4, 2)).astype(np.float32)
    vectors = rng.standard_normal((4, 3)).astype(np.float32)
    images = [
        Image(state(0, 4, 0, 2), weights),
        Image(state(0, 4, 4 * BANK, 3), vectors),
    ]
    lower = multiply(2, 0, bank=4, accumulate=True)
    outcome = run(engine, LOADS[0], load(2, 0), MULTIPLIES[0], lower, images=images)
    halves = [
        weights[k, :, None] * vectors[k] + weights[k + 1, :, None] * vectors[k + 1] for k in (0, 2)
    ]
    assert (outcome.memory.read(lower.result) == halves[0] + halves[1]).all()


@both
def test_rows_in_one_bank_share_its_port_and_columns_do_not(engine):
    """Tiles of the same rows read one bank in turns, those of other rows in the same cycles."""
    for row, col, last in ((2, 0, 4), (0, 2, 7)):
        beside = multiply(row, col, bank=5, moving=state(row, 2, 4 * BANK, 3))
        outcome = run(engine, LOADS[0], load(row, col, bank=1), MULTIPLIES[0], beside)
        assert times_of(outcome)[3][1] == last


@both
def test_a_throttled_array_counts_cycles_in_which_some_tile_multiplies(engine):
    """Cold until 6 cycles after the start: 2 x 3 cycles of the first two tiles, then one each.

    The third multiply starts in 8, when in 6 of the last 6 cycles some tile was at work.
    """
    third = multiply(0, 0, bank=4, result=psum(0, 2, 3, 3))
    on = chip(warm_up_cycles=6)
    outcome = run(engine, *LOADS[:2], *MULTIPLIES[:2], third, on=on)
    assert [each[:2] for each in times_of(outcome)[2:]] == [(2, 6), (2, 6), (8, 10)]


@both
def test_a_multiply_beside_one_that_is_at_work_finds_the_array_warm(engine):
    """W = 2. The first is cold, five vectors in 2 to 10; the second starts in 4, and is warm."""
    long = multiply(0, 0, moving=state(0, 2, 4 * BANK, 5), result=psum(0, 2, 0, 5))
    outcome = run(engine, LOADS[0], long, LOADS[1], MULTIPLIES[1], on=chip(warm_up_cycles=2))
    times = times_of(outcome)
    assert (times[1][:2], times[3][:2]) == ((2, 10), (4, 6))


@both
def test_what_is_seen_of_the_grid(engine):
    """Vector 0 of the quadrants is in PE (r, c) in cycle 2 + r + c, also of those below."""
    outcome = run(engine, *LOADS, *MULTIPLIES, grid=True)
    grid = outcome.trace.grid
    assert grid.has_tiles
    state_of = grid.at(2 + 2 + 3)
    assert (state_of.vector[2, 3], state_of.matmul[2, 3]) == (0, 7)
    assert (state_of.vector[2, 2], state_of.vector[1, 3]) == (1, 1)
    assert grid.vectors(7)[0][2, 3] == 3
    assert tuple(grid.interval()) == (0, 4 + 6 + 1)


BAD_SIZE = (
    "tile_size: the array of test 4 x 4 has tiles of 2 x 2, 2 x 4, 4 x 2 (pe_array.tile_sizes), "
    "not of 1 x 2"
)
BAD_PLACE = (
    "tile_position: needed a row below 4 that is a multiple of 2 and a column below 4 that is a "
    "multiple of 2, found "
)


@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        ([load(0, 0, (1, 2))], f"0 (LoadTile): {BAD_SIZE}"),
        ([load(1, 0)], f"0 (LoadTile): {BAD_PLACE}1, 0"),
        ([load(0, 4)], f"0 (LoadTile): {BAD_PLACE}0, 4"),
        ([LoadTile(weights=state(0, 2, 0, 2), tile_size=(2, 2), tile_position=(0,))],
         f"0 (LoadTile): {BAD_PLACE}0"),
        ([LoadTile(weights=state(0, 2, 0, 2), tile_size=(2, 2), tile_position=(2, 0))],
         "0 (LoadTile): weights: row r is fed by partitions r, r + R, r + 2R, ..., so the first "
         "must be row 2 of its tile behind a multiple of R = 4, found 0"),
        ([LoadTile(weights=state(0, 3, 0, 2), tile_size=(2, 2), tile_position=(0, 0))],
         "0 (LoadTile): weights: partitions (K) is 3, but there are 2 array rows"),
        ([MULTIPLIES[0]], "0 (MatMulTile): no LoadWeights of its tile (2 x 2 at row 0, column 0) "
         "before it"),
        ([LOADS[0], load(0, 0, (4, 2)), MULTIPLIES[0]],
         "2 (MatMulTile): no LoadWeights of its tile (2 x 2 at row 0, column 0) before it: a load "
         "of 4 x 2 at row 0, column 0 has taken PEs of it since"),
        ([LOADS[1], multiply(0, 2, result=psum(0, 2, 0, 3))],
         "1 (MatMulTile): result: must begin at partition 2, found 0"),
        ([LOADS[0], MatMul(moving=state(0, 2, 0, 3), result=psum(0, 2, 0, 3))],
         "1 (MatMul): no LoadWeights before it"),
    ],
)  # fmt: skip
def test_refused(instructions: Any, text: str) -> None:
    program = Program("p", tuple(instructions))
    with pytest.raises(ProgramError) as caught:
        check_program(program, chip())
    assert str(caught.value) == f"p: instruction {text}"
    found = next(each.code for each in lint(program, chip()))
    assert found == ("no-weights" if "no LoadWeights" in text else "illegal")


def test_an_array_without_tiles_says_so() -> None:
    with pytest.raises(ProgramError, match=r"has tiles of no size \(pe_array.tile_sizes\), not of"):
        check_program(Program("p", (LOADS[0],)), ideal_chip(4, 4))


def test_text_and_binary_form() -> None:
    line = (
        "matmul_tile moving=state_buffer[2:4]+32768 f32 (1x3) result=result_buffer[0:2]+0 f32 "
        "(1x3) tile_size=(2, 2) tile_position=(2, 0)"
    )
    each = multiply(2, 0)
    module = Module(Program("p", (load(2, 0), each)))
    text = format_text(module)
    assert line in " ".join(text.split())
    assert parse_text(text).program.instructions == module.program.instructions
    assert decode(encode(module)).program == module.program


def test_a_group_of_sums_is_of_its_partitions() -> None:
    """A bank that keeps one group open keeps one in each partition."""
    on = ideal_chip(4, 4, pe_array=SIZES, result_buffer={"groups_per_bank": 1})
    left, right = multiply(0, 0, bank=4), multiply(0, 2, bank=4)
    more = [multiply(0, c, bank=4, accumulate=True) for c in (0, 2)]
    check_program(Program("p", (*LOADS[:2], left, right, *more)), on)
    anew = multiply(0, 0, bank=4, result=psum(0, 2, 3, 3))
    with pytest.raises(ProgramError, match="no open accumulation group"):
        check_program(Program("p", (*LOADS[:2], left, right, anew, *more)), on)


@pytest.mark.parametrize("waits_for", [0, 1])
def test_lint_knows_that_a_tile_does_not_wait_for_another(waits_for: int) -> None:
    """A copy of the first tile's results needs its own post; that of the second does not do."""
    makes = [
        multiply(0, 2 * n, bank=4 + n, posts=(Post(n),)) for n in range(2)
    ]  # fmt: skip
    copy = Copy(
        engine="activation", source=makes[0].result, target=state(0, 2, 7 * BANK, 3),
        waits=(Wait(waits_for, 1),),
    )  # fmt: skip
    program = Program("p", (*LOADS[:2], *makes, copy), ("s0", "s1"))
    codes = [finding.code for finding in lint(program, chip())]
    assert codes == [*(["read-after-write"] if waits_for else []), "unused-post"]


def test_lint_knows_that_posts_of_tiles_come_in_any_order() -> None:
    """The first post of two to one semaphore may be the second multiply's."""
    makes = [multiply(0, 2 * n, bank=4 + n, posts=(Post(0),)) for n in range(2)]
    for value, codes in ((1, ["read-after-write"]), (2, [])):
        copy = Copy(
            engine="activation", source=makes[0].result, target=state(0, 2, 7 * BANK, 3),
            waits=(Wait(0, value),),
        )  # fmt: skip
        program = Program("p", (*LOADS[:2], *makes, copy), ("s0",))
        assert [finding.code for finding in lint(program, chip())] == codes


def test_a_film_of_tiles_is_refused_and_the_picture_is_a_timeline(tmp_path) -> None:
    outcome = run("event", *LOADS, *MULTIPLIES, grid=True)
    assert moments(chip(), outcome.trace) is None
    with pytest.raises(SystolicError, match="a wavefront shows one multiply after another"):
        require_whole(outcome.trace)
    plot_wavefront(chip(), outcome.trace, tmp_path / "tiles.png", title="tiles")
    assert (tmp_path / "tiles.png").stat().st_size > 1000


@pytest.mark.parametrize("seed", range(10))
def test_loads_for_free_cost_no_time(seed: int) -> None:
    made, program, _ = random_program(seed)
    runs = [
        simulate(made, program, values=False, spared=Spared(loads=each)).trace.ticks
        for each in (False, True)
    ]
    assert runs[1] <= runs[0]


# Random programs.


def random_program(seed: int) -> tuple[Chip, Program, list[Image]]:
    """Return a chip with tiles and a program of loads and multiplies on them, with some waits."""
    rng = Random(seed)
    array = {
        "tile_sizes": [[2, 2], [2, 4], [4, 2], [4, 4]],
        "weight_path": rng.choice(["left", "top"]),
        "weight_buffer": rng.choice(["double", "double", "single", "serial"]),
        "fast_load": rng.choice([1, 2, 3]),
        "hop": [rng.choice([0, 1, 2]) or 1, rng.choice([1, 2])],
        "cell": rng.choice([[1, 1], [2, 1], [1, 2], [2, 2]]),
        "entry_cycles": rng.choice([0, 0, 3]),
        "min_vectors": rng.choice([0, 4]),
        "passes": rng.choice([{}, {"f32": 2}]),
        "warm_up_cycles": rng.choice([0, 0, 9]),
    }
    latency = rng.choice([0, 1, 5])
    made = ideal_chip(
        4, 4, pe_array=array, result_buffer={"write_latency_cycles": latency},
        state_buffer={"port_scope": rng.choice(["bank", "partition"])},
        semaphore_cycles=rng.choice([1, 3]),
    )  # fmt: skip
    sizes = [(2, 2), (2, 4), (4, 2), (4, 4)]
    weights, work = dict[Any, LoadTile](), list[Any]()
    for number in range(rng.randint(4, 30)):
        size = rng.choice(sizes)
        place = (rng.randrange(0, 4, size[0]), rng.randrange(0, 4, size[1]))
        keys = {"tile_size": size, "tile_position": place, "posts": (Post(number),)}
        if number and rng.random() < 0.15:
            keys["waits"] = (Wait(rng.randrange(number), 1),)
        K, N, M = rng.randint(1, size[0]), rng.randint(1, size[1]), rng.randint(1, 6)
        loaded = weights.get((place, size))
        if loaded is None or rng.random() < 0.3:
            one = LoadTile(weights=state(place[0], K, 64 * rng.randrange(3), N), **keys)
            weights = {key: each for key, each in weights.items() if not meet(key, (place, size))}
            weights[place, size] = one
            work.append(one)
            continue
        keys["posts"] = (Post(number, rng.choice(["done", "row", "partition"])),)
        K = min(K, loaded.weights.partitions)
        N = min(N, loaded.weights.elements)
        bank = rng.randrange(2)
        work.append(
            MatMulTile(
                moving=state(place[0], K, rng.choice([0, BANK]) + 256, M),
                result=psum(place[1], N, 512 * bank + rng.randrange(20), M),
                accumulate=rng.random() < 0.3,
                **keys,
            )
        )
    words = np.random.default_rng(seed).standard_normal((4, 2 * BANK // 4)).astype(np.float32)
    names = tuple(f"s{n}" for n in range(len(work)))
    return made, Program("random tiles", tuple(work), names), [Image(state(0, 4, 0, 4096), words)]


def meet(one: Any, other: Any) -> bool:
    """Return whether two tiles, each a position and a size, have a PE in common."""
    return all(
        a < b + theirs and b < a + mine for a, mine, b, theirs in zip(*one, *other, strict=True)
    )


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_engines_agree_on_random_tiles(seed: int) -> None:
    """Word by word and cycle by cycle; no run is shorter than its bound, every start explained."""
    made, program, images = random_program(seed)
    event = simulate(made, program, images, kinds=KINDS, grid=True)
    register = simulate(made, program, images, kinds=KINDS, engine="register", grid=True)
    assert_same(event, register)
    assert busy_cycles(made, program)["pe_array"] <= event.trace.cycles()
    run = Lives(made, program, event.trace)
    causes = Causes(run)
    for index in run.times:
        last = causes.last(index)
        assert (0 if last is None else last.tick) == causes.could_start(index), (index, last)


@pytest.mark.parametrize("seed", quick_first(range(20), 5))
def test_the_history_shows_what_the_registers_hold(seed: int) -> None:
    """Every PE in every cycle, weights, vectors and sums."""
    made, program, images = random_program(seed)
    history = simulate(made, program, images, grid=True).trace.grid
    states = dict[int, Any]()
    run_register(
        made, program, Memory(made, program, images), Recorder(made.units),
        observer=lambda cycle, grid: states.__setitem__(cycle, grid),
    )  # fmt: skip
    for cycle, held in states.items():
        told = history.at(cycle)
        for name in ("moving", "weight", "shadow", "sum", "valid", "vector", "matmul"):
            assert np.array_equal(getattr(held, name), getattr(told, name)), (cycle, name)
