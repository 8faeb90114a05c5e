"""Random small works on random chips with clocks of their own: what bounds are hunted with.

Chips differ from one another in all that enters a bound: clocks, latencies, rates, widths, one,
three or six engines or the patent's two, DRAM with and without an organisation. Works are tiny, so
that a bound has little slack.
"""

from __future__ import annotations

from random import Random
from typing import Any

from support.axes import told
from support.chips import TYPES, ideal_chip
from support.random_programs import aside, engine_tables, random_handoff, within_port
from support.random_sequencing import sequenced
from support.random_transfers import random_organisation
from systolic.compiler import Options
from systolic.hw.spec import Chip
from systolic.hw.units import BUFFERS
from systolic.workload import Graph, GraphBuilder

CLOCKS = (1000, 1000, 1200, 1400, 2800, 250, 4000, 750)
UNITS = ("pe_array", "activation", "pooling", "dma")
FLOATS, INTEGERS = ("f32", "bf16", "f16"), ("s8", "u8")
HOMES = ("state_buffer", "dram")


def random_clocked_chip(rng: Random) -> Chip:
    """Return a chip of at most 6 x 6 whose units have clocks, latencies and rates of their own."""
    down, right = rng.choice([(1, 1), (1, 1), (2, 1), (1, 3)]), rng.choice([(1, 1), (1, 1), (2, 2)])
    rows, cols = (cell * rng.randint(1, 6 // cell) for cell in right)
    engines = aside(rng, "engines")
    queues, ports = rng.randint(1, 4), aside(rng, "ports")
    dram = _dram(rng, queues)
    chip = ideal_chip(
        rows, cols,
        clock={f"c{number}": mhz for number, mhz in enumerate(rng.choices(CLOCKS, k=3))},
        semaphore_cycles=rng.choice([1, 1, 2, 5]),
        state_buffer={
            "partitions": rng.randint(max(rows, cols), 13), "banks": rng.choice([1, 8]),
            "port_scope": ports.choice(["bank", "partition"]),
            "port_bytes": ports.choice([None, None, 5, 8, 20, 64]),
        },
        pe_array={
            "weight_buffer": rng.choice(["double", "single", "serial"]),
            "weight_path": rng.choice(["left", "top"]),
            "fast_load": rng.choice([1, 1, 2, 4]),
            "hop": down, "cell": right,
            "entry_cycles": rng.choice([0, 0, 7]),
            "cycles_per_vector": {name: rng.choice([1, 1, 1, 4, 30]) for name in TYPES},
            **_limits(aside(rng, "limits"), rows),
            "clock": _clock(rng),
        },
        result_buffer={
            "banks": rng.randint(1, 8), "bank_bytes": 4 * rng.randint(4, 40),
            "groups_per_bank": aside(rng, "groups").choice([None, 1]),
            "write_latency_cycles": rng.choice([0, 0, 9]),
        },
        activation=_engine(rng), pooling=_engine(rng),
        dma=_dma(rng, queues),
        dram=dram,
    )  # fmt: skip
    if engines.random() < 0.5:
        chip = with_engines(chip, engines)
    handoff = random_handoff(aside(rng, "handoff"), chip.lane_engines)
    chip = chip.model_copy(update={"handoff_cycles": handoff})
    return sequenced(chip, rng) if rng.random() < 0.5 else chip


def _limits(rng: Random, rows: int) -> dict[str, Any]:
    """Return keys of [pe_array]: passes, the least and the most vectors of a multiply."""
    return {
        "passes": {name: rng.choice([2, 3]) for name in TYPES if rng.random() < 0.2},
        "min_vectors": rng.choice([0, 0, 3, 20]),
        "moving_max": rng.choice([None, None, rows, rows + 3]),
    }


def with_engines(chip: Chip, rng: Random) -> Chip:
    """Return the chip with one, three or six engines instead of the patent's two.

    The first of them can do all that the compiler asks for; the others do what is drawn.
    """
    count = rng.choice([1, 3, 6])
    tables: dict[str, dict[str, Any]] = {}
    while len(tables) < count:
        tables |= engine_tables(rng, list(chip.clock))
    kept = {name: table | _engine(rng) for name, table in list(tables.items())[:count]}
    first = next(iter(kept.values()))
    first |= {"does": [*{"copy": 0, "select": 0} | dict.fromkeys(first["does"], 0)],
              "reads": list(BUFFERS), "writes": list(BUFFERS)}  # fmt: skip
    for table in kept.values():
        table["rates"] = [within_port(row, chip.state_buffer.port_bytes) for row in table["rates"]]
    parts = chip.model_dump(exclude={"activation", "pooling", "port_priority"})
    return Chip.model_validate(parts | {"engines": kept})


def _dma(rng: Random, queues: int) -> dict[str, Any]:
    engines = rng.choice([queues, *(n for n in range(1, queues + 1) if queues % n == 0)])
    return {
        "queues": queues,
        "engines": engines,
        "latency_cycles": rng.choice([0, 0, 3, 90]),
        "outstanding": rng.choice([1, 1, 2, 4]),
        "descriptor_cycles": rng.choice([0, 0, 1, 7]),
        "descriptor_cost": rng.choice(["sum", "max"]),
        "bytes_per_cycle": rng.choice([queues // engines, 4, 64, 272]),
        "partitions_per_cycle": rng.choice([1, 1, 2, 16]),
        "clock": _clock(rng),
    }


def _clock(rng: Random) -> str:
    return rng.choice(["", "c0", "c1", "c2"])


def _engine(rng: Random) -> dict[str, Any]:
    return {
        "latency_cycles": rng.choice([1, 1, 2, 100]),
        "elements_per_cycle": rng.choice([1, 1, 2, 5]),
        "min_interval_cycles": rng.choice([0, 0, 0, 20]),
        "fixed_cycles": rng.choice([0, 0, 0, 6]),
        "independent_lanes": rng.random() < 0.5,
        "clock": _clock(rng),
    }


def _dram(rng: Random, queues: int) -> dict[str, Any]:
    """Return a table of DRAM; a rate of fewer bytes than there are queues is not drawn."""
    table: dict[str, Any] = {
        "size_bytes": 1 << 30,
        "bytes_per_cycle": rng.choice([queues, queues + 1, 16, 64, 820]),
        "latency_cycles": rng.choice([0, 0, 5, 42]),
    }
    if rng.random() < 0.3:
        channels = rng.choice([1, 2, 4])
        table["bytes_per_cycle"] = channels * rng.choice([4, 16])
        table["organisation"] = {
            "channels": channels, "banks": rng.choice([1, 4]), "row_bytes": 1024,
            "burst_bytes": rng.choice([16, 64]), "interleave_bytes": rng.choice([64, 256]),
            "activate_cycles": rng.choice([0, 17]), "precharge_cycles": rng.choice([0, 17]),
            "outstanding": rng.choice([1, 1, 3, 64]),
            "scheduling": rng.choice(["fcfs", "fr_fcfs"]),
        }  # fmt: skip
        if rng.random() < 0.5:
            table["organisation"] |= {
                "refresh_cycles": rng.choice([1, 40]),
                "refresh_interval_cycles": rng.choice([60, 100, 400]),
            }
        own = aside(rng, "organisation")
        if own.random() < 0.5:  # every key: groups, hashes, orders, patience, all timings
            table |= random_organisation(own)
    return table


def random_options(rng: Random, chip: Chip) -> Options:
    """Return settings of a compilation, most of them left to the compiler."""
    via = rng.choice([None, None, None, "pe", "dram"])
    drain = rng.choice(["block", "block", "row", "partition"])
    patents = rng.choice(["activation", "pooling"])
    return Options(
        via=via,
        drain=drain,
        drain_engine=patents if chip.engines is None else _copier(aside(rng, "drain"), chip),
        stationary=rng.choice([None, None, "lhs", "rhs"]),
    )


def _copier(rng: Random, chip: Chip) -> str | None:
    """Return an engine that can copy results out, or None: the compiler chooses."""
    able = [
        name
        for name, engine in chip.lane_engines.items()
        if "copy" in engine.does
        and "result_buffer" in engine.reads
        and "state_buffer" in engine.writes
    ]
    return rng.choice([None, *able])


def random_work(rng: Random) -> Graph:
    """Return a graph of one operation, or of two or three in a row, on tiny tensors."""
    builder = GraphBuilder(rng.choice(HOMES))
    dtype = rng.choice(INTEGERS if rng.random() < 0.2 else FLOATS)
    rank = rng.choice([2, 2, 2, 3, 3, 4])
    dims = [_side(rng) if rank == 2 else rng.randint(1, 6 - rank) for _ in range(rank)]
    now = builder.tensor("x", _shape(rng, dtype, dims), rng.choice(HOMES))
    for number in range(rng.choice([1, 1, 1, 2, 3])):
        now, dtype, dims = _grow(rng, builder, (now, dtype, dims), number)
    return builder.graph()


def _side(rng: Random) -> int:
    return rng.choice([1, 1, 2, 3, 4, 5, 6, 8, 9, 11])


def _shape(rng: Random, dtype: str, dims: list[int]) -> str:
    order = rng.sample(range(len(dims)), len(dims))
    tile = rng.choice(["", "", "", ":T(4,8)", ":T(2,2)(2,1)"])
    return f"{dtype}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}{tile}}}"


def _grow(
    rng: Random, builder: GraphBuilder, now: tuple[str, str, list[int]], number: int
) -> tuple[str, str, list[int]]:
    tensor, dtype, dims = now
    name = f"y{number}"
    kind = rng.choice(["matmul", "matmul", "transpose", "relayout", "reshape", "cast"])
    if kind == "matmul" and dtype == "s32":
        kind = "relayout"
    if kind == "matmul":
        return _product(rng, builder, now, number)
    axes: list[int] = []
    if kind == "transpose":
        axes = rng.sample(range(len(dims)), len(dims))
        dims = [dims[axis] for axis in axes]
    elif kind == "reshape":
        dims = _regrouped(rng, dims)
    elif kind == "cast" and dtype in FLOATS:
        dtype = "bf16" if dtype == "f32" else "f32"
    made = builder.add(kind, (tensor,), _shape(rng, dtype, dims), name=name, **told(axes))
    return made, dtype, dims


def _regrouped(rng: Random, dims: list[int]) -> list[int]:
    """Return other dimensions of as many elements: two joined, or all, or one split off."""
    place = rng.randrange(len(dims) - 1) if len(dims) > 1 else 0
    joined = [*dims[:place], dims[place] * dims[min(place + 1, len(dims) - 1)], *dims[place + 2 :]]
    if len(dims) == 1 or rng.random() < 0.3:
        total = 1
        for dim in dims:
            total *= dim
        first = rng.choice([d for d in range(1, total + 1) if total % d == 0])
        return [first, total // first]
    return joined if len(joined) > 1 else [1, *joined]


def _product(
    rng: Random, builder: GraphBuilder, now: tuple[str, str, list[int]], number: int
) -> tuple[str, str, list[int]]:
    tensor, dtype, dims = now
    *batch, rows, depth = dims
    cols = _side(rng)
    other = [*(batch if rng.random() < 0.7 else []), depth, cols]
    weights = builder.tensor(f"w{number}", _shape(rng, dtype, other), rng.choice(HOMES))
    out = dtype if dtype in FLOATS else "s32"
    made = builder.matmul(
        tensor, weights, _shape(rng, out, [*batch, rows, cols]), name=f"y{number}"
    )
    return made, out, [*batch, rows, cols]
