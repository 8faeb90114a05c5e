"""Twin of `hw.formulas`: the closed formulas of the timing contract, and numpy in row order.

What it is: the expectation the RTL is held against. Cycles follow from one pass over the queue
(streaming, loads, exchange, refused reads); nothing is stepped.
What it is not: shared with the simulator: it imports nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rtl_harness import Load, Mul, RtlConfig, RtlProgram, RtlTrace


@dataclass(frozen=True, slots=True)
class Schedule:
    """Cycles per instruction: start, and its reads (a load) or injections (a multiply)."""

    starts: list[int]
    accesses: list[list[int]]


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def stream(refused: NDArray[np.bool_], start: int, count: int, spacing: int) -> list[int]:
    """Cycles of `count` accesses, `spacing` apart; a refused one is repeated in the next cycle."""
    cycles: list[int] = []
    wanted = start
    for _ in range(count):
        while wanted < len(refused) and refused[wanted]:
            wanted += 1
        cycles.append(wanted)
        wanted += spacing
    return cycles


def drain_cycles(config: RtlConfig) -> int:
    """From the injection of a vector until the last PE is done with it."""
    (down, right), (tr, tc) = config.hop, config.cell
    last_column = right * ((config.columns - 1) // tc)
    return config.entry_cycles + down * (config.rows // tr) + last_column


def load_bound(config: RtlConfig, multiply: list[int]) -> int:
    """Earliest next load after a multiply with these injection cycles."""
    if config.weight_buffer == "double":
        return multiply[0]
    if config.weight_buffer == "single":
        return multiply[-1]
    return multiply[-1] + drain_cycles(config)


def schedule(config: RtlConfig, program: RtlProgram) -> Schedule:
    """When each instruction starts and accesses the state buffer: the table of timing.md."""
    starts: list[int] = []
    accesses: list[list[int]] = []
    last_load: list[int] = []
    last_multiply: list[int] = []
    v = config.cycles_per_vector
    for instruction in program.instructions:
        bounds = [instruction.not_before]
        if last_load:
            bounds.append(last_load[-1] + 1)
        if isinstance(instruction, Load):
            if last_multiply:
                bounds.append(load_bound(config, last_multiply))
            size = instruction.columns if config.weight_path == "left" else instruction.rows
            count = ceil_div(size, config.fast)
            last_load = stream(program.weight_refused, max(bounds), count, 1)
            accesses.append(last_load)
        else:
            if last_multiply:
                bounds.append(last_multiply[-1] + v)
            last_multiply = stream(program.moving_refused, max(bounds), instruction.vectors, v)
            accesses.append(last_multiply)
        starts.append(max(bounds))
    return Schedule(starts, accesses)


def offsets(config: RtlConfig) -> NDArray[np.int64]:
    """(rows, columns): cycles from the injection of a vector until PE (r, c) multiplies it."""
    (down, right), (tr, tc) = config.hop, config.cell
    r, c = np.indices((config.rows, config.columns))
    return config.entry_cycles + down * (r // tr) + right * (c // tc)


@dataclass(frozen=True, slots=True)
class Expected:
    """The planes and writes of `RtlTrace`, by formula."""

    moving: NDArray[np.generic]
    weight: NDArray[np.generic]
    shadow: NDArray[np.generic]
    sum: NDArray[np.generic]
    valid: NDArray[np.bool_]
    writes: NDArray[np.int64]
    write_values: NDArray[np.generic]


def expected(config: RtlConfig, program: RtlProgram, plan: Schedule, cycles: int) -> Expected:
    """Every register in every cycle of the first `cycles`, and every write of the result buffer."""
    shape = (cycles, config.rows, config.columns)
    moving, total = np.zeros(shape, config.sum_dtype), np.zeros(shape, config.sum_dtype)
    valid = np.zeros(shape, bool)
    weight, shadow = weight_planes(config, program, plan, shape)
    writes: list[tuple[int, int, int]] = []
    values: list[np.generic] = []
    result = np.zeros((config.columns, config.result_words), config.sum_dtype)
    for instruction, injected, tile in multiplies(config, program, plan):
        operands = moving_vectors(config, program, instruction)
        sums = row_order_sums(operands, tile, instruction.rows)
        n = instruction.columns
        for m, e in enumerate(injected):
            at = (e + offsets(config)[:, :n], *np.indices((config.rows, n)))
            moving[at] = operands[m][:, None]
            total[at] = sums[m, :, :n]
            valid[at] = True
            writes += take(config, instruction, e, m, sums[m, -1], result, values)
    order = np.array(writes, np.int64).reshape(-1, 3)
    return Expected(moving, weight, shadow, total, valid, order, np.array(values, config.sum_dtype))


def multiplies(
    config: RtlConfig, program: RtlProgram, plan: Schedule
) -> list[tuple[Mul, list[int], NDArray[np.generic]]]:
    """Each multiply with its injection cycles and the weights it means, in program order."""
    loaded = np.zeros((config.rows, config.columns), config.sum_dtype)
    found = []
    for instruction, access in zip(program.instructions, plan.accesses, strict=True):
        if isinstance(instruction, Load):
            k, n = instruction.rows, instruction.columns
            loaded[:k, :n] = program.state[:k, instruction.address : instruction.address + n]
        else:
            found.append((instruction, access, loaded.copy()))
    return found


def moving_vectors(config: RtlConfig, program: RtlProgram, instruction: Mul) -> NDArray[np.generic]:
    """(vectors, rows): operands, 0 in the rows beyond K."""
    first = instruction.moving_address
    vectors = np.zeros((instruction.vectors, config.rows), config.sum_dtype)
    k = instruction.rows
    vectors[:, :k] = program.state[:k, first : first + instruction.vectors].T
    return vectors


def row_order_sums(
    operands: NDArray[np.generic], tile: NDArray[np.generic], rows: int
) -> NDArray[np.generic]:
    """(vectors, rows, columns): partial sums after each row, one rounding per operation."""
    running = np.zeros((len(operands), tile.shape[1]), tile.dtype)
    partial = []
    with np.errstate(all="ignore"):
        for r in range(len(tile)):
            if r < rows:
                running = running + operands[:, r, None] * tile[r]
            partial.append(running)
    return np.stack(partial, axis=1)


def take(
    config: RtlConfig,
    instruction: Mul,
    e: int,
    m: int,
    finished: NDArray[np.generic],
    result: NDArray[np.generic],
    values: list[np.generic],
) -> list[tuple[int, int, int]]:
    """The result buffer takes vector m; returns (cycle, partition, address) of its writes."""
    (down, right), (tr, tc) = config.hop, config.cell
    first = e + config.entry_cycles + down * (config.rows // tr) - 1 + config.psum_write_latency
    address = instruction.result_address + m
    with np.errstate(all="ignore"):
        words = finished + result[:, address] if instruction.accumulate else finished
    n = instruction.columns
    result[:n, address] = words[:n]
    values += list(words[:n])
    return [(first + right * (c // tc), c, address) for c in range(n)]


def weight_planes(
    config: RtlConfig, program: RtlProgram, plan: Schedule, shape: tuple[int, int, int]
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Active and shadow weight registers at the end of every cycle."""
    loaded = np.zeros(shape, config.sum_dtype)
    for instruction, access in zip(program.instructions, plan.accesses, strict=True):
        if isinstance(instruction, Load):
            write_tile(config, program, instruction, access, loaded)
    if config.weight_buffer != "double":
        return loaded, np.zeros(shape, config.sum_dtype)

    active = np.zeros(shape, config.sum_dtype)
    fresh = False
    for instruction, access in zip(program.instructions, plan.accesses, strict=True):
        if isinstance(instruction, Mul) and fresh:
            exchange(config, access[0], loaded, active)
        fresh = isinstance(instruction, Load)
    return active, loaded


def write_tile(
    config: RtlConfig,
    program: RtlProgram,
    load: Load,
    reads: list[int],
    plane: NDArray[np.generic],
) -> None:
    """PE (r, c) takes its element in the cycle of its read plus the way to it."""
    way = offsets(config)
    for r in range(load.rows):
        for c in range(load.columns):
            number = (c if config.weight_path == "left" else r) // config.fast
            plane[reads[number] + way[r, c] :, r, c] = program.state[r, load.address + c]


def exchange(
    config: RtlConfig, e: int, shadow: NDArray[np.generic], active: NDArray[np.generic]
) -> None:
    """Each PE copies what its shadow held before the cycle in which it multiplies the vector."""
    way = offsets(config)
    for r in range(config.rows):
        for c in range(config.columns):
            t = e + way[r, c]
            active[t:, r, c] = shadow[t - 1, r, c]


# ---- comparison ----------------------------------------------------------------------------------


def same_bits(got: NDArray[np.generic], wanted: NDArray[np.generic], what: str) -> None:
    """Equal bit for bit (-0 is not +0), except that any NaN equals any NaN."""
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, wanted {wanted.shape}"
    assert got.dtype == wanted.dtype, f"{what}: {got.dtype}, wanted {wanted.dtype}"
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    differ = got.view(unsigned) != wanted.view(unsigned)
    if got.dtype == np.float32:
        differ &= ~(np.isnan(got) & np.isnan(wanted))
    if differ.any():
        at = tuple(int(i) for i in np.argwhere(differ)[0])
        raise AssertionError(f"{what}{list(at)} is {got[at]}, wanted {wanted[at]}")


def same_cycles(config: RtlConfig, program: RtlProgram, trace: RtlTrace) -> Schedule:
    """The starts, reads and injections of the RTL are those of the formulas."""
    plan = schedule(config, program)
    kinds: dict[type, list[tuple[int, int, int]]] = {Load: [], Mul: []}
    for index, cycles in enumerate(plan.accesses):
        kind = type(program.instructions[index])
        kinds[kind] += [(cycle, index, number) for number, cycle in enumerate(cycles)]
    for what, got, wanted in (
        ("reads", trace.reads, kinds[Load]),
        ("injections", trace.injections, kinds[Mul]),
    ):
        same_bits(got, np.array(wanted, np.int64).reshape(-1, 3), what)
    same_bits(trace.starts, np.array(plan.starts, np.int64), "starts")
    return plan


def same_as_formulas(config: RtlConfig, program: RtlProgram, trace: RtlTrace) -> None:
    """Every cycle and every value of the trace follows from the closed formulas."""
    plan = same_cycles(config, program, trace)
    wanted = expected(config, program, plan, trace.cycles)
    for name in ("valid", "moving", "weight", "shadow", "sum"):
        same_bits(getattr(trace, name), getattr(wanted, name), name)
    same_writes(trace, wanted.writes, wanted.write_values)


def same_writes(trace: RtlTrace, writes: NDArray[np.int64], values: NDArray[np.generic]) -> None:
    """The same writes of the result buffer, ordered by cycle and partition."""
    order = np.lexsort((writes[:, 1], writes[:, 0]))
    same_bits(trace.writes, np.ascontiguousarray(writes[order]), "writes")
    same_bits(trace.write_values, values[order], "write_values")


def same_traces(one: RtlTrace, other: RtlTrace) -> None:
    """Two runs are alike in every dumped bit."""
    assert one.cycles == other.cycles
    for name in RtlTrace.__slots__:
        if name != "cycles":
            got, wanted = getattr(one, name), getattr(other, name)
            assert got.tobytes() == wanted.tobytes(), f"{name} differs"
            assert got.shape == wanted.shape, f"{name} differs in shape"
