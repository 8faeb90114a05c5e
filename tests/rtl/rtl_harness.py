"""Run the RTL of the array under Verilator or Icarus, and return what it did as numpy arrays.

What it is: the only Python that knows the file formats of `hdl/bench.v`. `simulate` takes a
configuration and a program and gives back every register of every PE in every cycle.
What it is not: a model. It computes no cycle and no value, and hands the RTL no schedule.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rtl_build import Tool, build, checked

FORMS = ("loops", "structural")
FORM_SOURCES = {"loops": "pe_array.v", "structural": "pe_array_structural.v"}
WEIGHT_PATHS = ("left", "top")
WEIGHT_BUFFERS = ("double", "single", "serial")
NUMBER_FORMATS = ("int32", "float32")

QUEUE_CAPACITY, REFUSED_CAPACITY = 1024, 65536  # instructions and cycles, see bench.v
START, READ, INJECT, WRITE, END = 1, 2, 3, 4, 9  # kinds of lines of events.txt


# ---- what is simulated ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlConfig:
    """The array to be built; the names are those of a chip file.

    Everything but `cycles_per_vector` is a parameter of the hardware (one build each).
    `hop` = cycles per register hop (down, right); `cell` = PEs between registers (rows, columns).
    `form`: how the array is written, `loops` (any size) or `structural` (small: one module per PE).
    """

    rows: int
    columns: int
    fast: int = 1
    weight_path: str = "left"
    weight_buffer: str = "double"
    hop: tuple[int, int] = (1, 1)
    cell: tuple[int, int] = (1, 1)
    entry_cycles: int = 0
    number_format: str = "int32"
    psum_write_latency: int = 0
    cycles_per_vector: int = 1
    state_words: int = 4096
    result_words: int = 4096
    form: str = "loops"

    def __post_init__(self) -> None:
        one_of("weight_path", self.weight_path, WEIGHT_PATHS)
        one_of("weight_buffer", self.weight_buffer, WEIGHT_BUFFERS)
        one_of("number_format", self.number_format, NUMBER_FORMATS)
        one_of("form", self.form, FORMS)
        if self.rows % self.cell[0] or self.columns % self.cell[1]:
            raise ValueError(f"{self.rows} x {self.columns} PEs are no multiple of {self.cell}")

    @property
    def operand_dtype(self) -> np.dtype:
        """Of moving operands and weights in the state buffer."""
        return np.dtype(np.float32 if self.number_format == "float32" else np.int8)

    @property
    def sum_dtype(self) -> np.dtype:
        """Of sums, and of every plane of the trace."""
        return np.dtype(np.float32 if self.number_format == "float32" else np.int32)

    def hdl_parameters(self) -> dict[str, int]:
        """The parameters of `bench.v`."""
        return {
            "ROWS": self.rows,
            "COLS": self.columns,
            "FAST": self.fast,
            "TOP": WEIGHT_PATHS.index(self.weight_path),
            "BUFFER": WEIGHT_BUFFERS.index(self.weight_buffer),
            "DOWN": self.hop[0],
            "RIGHT": self.hop[1],
            "TR": self.cell[0],
            "TC": self.cell[1],
            "ENTRY": self.entry_cycles,
            "FLOAT": NUMBER_FORMATS.index(self.number_format),
            "LATENCY": self.psum_write_latency,
            "STATE_WORDS": self.state_words,
            "RESULT_WORDS": self.result_words,
        }

    def hdl_sources(self) -> tuple[str, ...]:
        """The files of the design, bench included."""
        return ("bench.v", FORM_SOURCES[self.form], "sequencer.v")


def one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a value that is not in the list."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, allowed: {', '.join(allowed)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load a tile of weights: element (r, c) lies in partition r at `address` + c."""

    rows: int
    columns: int
    address: int = 0
    not_before: int = 0

    def words(self) -> list[int]:
        """The instruction as `sequencer.v` reads it."""
        return [1, self.rows, self.columns, 0, self.address, 0, 0, self.not_before]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul:
    """Stream vectors: operand r of vector m lies in partition r at `moving_address` + m."""

    rows: int
    columns: int
    vectors: int
    moving_address: int = 0
    result_address: int = 0
    accumulate: bool = False
    not_before: int = 0

    def words(self) -> list[int]:
        """The instruction as `sequencer.v` reads it."""
        extent = (self.rows, self.columns, self.vectors)
        addresses = (self.moving_address, self.result_address)
        return [2, *extent, *addresses, int(self.accumulate), self.not_before]


def never() -> NDArray[np.bool_]:
    """No refused cycle."""
    return np.zeros(0, dtype=bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlProgram:
    """The queue of the array, the state buffer, and in which cycles its read ports refuse.

    `state` is (rows, words) in `RtlConfig.operand_dtype`; the refusals are one bool per cycle from
    cycle 0, nothing is refused after their end.
    """

    instructions: tuple[Load | Mul, ...]
    state: NDArray[np.generic]
    moving_refused: NDArray[np.bool_] = field(default_factory=never)
    weight_refused: NDArray[np.bool_] = field(default_factory=never)


@dataclass(frozen=True, slots=True, kw_only=True)
class Straps:
    """One-cycle bends of one rule each (see `sequencer.v`); all False in earnest."""

    early_multiply: bool = False
    early_load: bool = False
    late_load: bool = False


NO_STRAPS = Straps()


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlTrace:
    """What the RTL did. Planes are (cycles, rows, columns), as they stand at the end of the cycle.

    `moving`, `sum`, `valid`: operand, adder output and occupancy of the slot in the PE in it.
    `weight`, `shadow`: the registers after the edge that ends the cycle.
    `starts`: cycle per instruction (-1: never) in which the sequencer took it off the queue and
    made its first request, granted or not. `reads`: rows (cycle, instruction, read number);
    `injections`: (cycle, instruction, vector); `writes`: (cycle, partition, address), ordered by
    cycle and partition, with `write_values` beside it.
    """

    cycles: int
    starts: NDArray[np.int64]
    reads: NDArray[np.int64]
    injections: NDArray[np.int64]
    writes: NDArray[np.int64]
    write_values: NDArray[np.generic]
    moving: NDArray[np.generic]
    weight: NDArray[np.generic]
    shadow: NDArray[np.generic]
    sum: NDArray[np.generic]
    valid: NDArray[np.bool_]


# ---- one simulation ------------------------------------------------------------------------------


def simulate(
    config: RtlConfig,
    program: RtlProgram,
    tool: Tool = "verilator",
    *,
    straps: Straps = NO_STRAPS,
    cycles: int | None = None,
    limit: int = 1_000_000,
    planes: bool = True,
    events: bool = True,
    native: bool = False,
) -> RtlTrace:
    """Run the program to its end (until nothing moves any more), or for exactly `cycles` cycles.

    `planes` and `events` switch the dumps off (empty arrays then), for measuring speed.
    RuntimeError when the program has not ended after `limit` cycles.
    """
    with tempfile.TemporaryDirectory(prefix="systolic-rtl-run-") as name:
        folder = Path(name)
        sources, parameters = config.hdl_sources(), config.hdl_parameters()
        command = build(folder, "bench", sources, parameters, tool, native=native)
        arguments = write_inputs(folder, config, program)
        arguments |= {f.name: int(getattr(straps, f.name)) for f in fields(Straps)}
        arguments |= {"vector": config.cycles_per_vector, "limit": limit, "cycles": cycles or 0}
        arguments |= {"dump": int(planes), "events": int(events)}
        checked([*command, *(f"+{key}={value}" for key, value in arguments.items())], folder)
        return read_trace(folder, config, len(program.instructions), limit)


def write_inputs(folder: Path, config: RtlConfig, program: RtlProgram) -> dict[str, int]:
    """The memory images of the bench, and the plus arguments that announce them."""
    queue = np.array([i.words() for i in program.instructions], dtype=np.int64).reshape(-1)
    (folder / "queue.hex").write_text(hex_words(queue.astype(np.uint32)))

    length = max(len(program.moving_refused), len(program.weight_refused))
    refused = np.zeros(length, dtype=np.uint8)
    refused[: len(program.moving_refused)] |= program.moving_refused.astype(np.uint8)
    refused[: len(program.weight_refused)] |= program.weight_refused.astype(np.uint8) << 1
    (folder / "refused.hex").write_text(hex_words(refused))

    state = np.asarray(program.state)
    at_most("instructions", len(program.instructions), QUEUE_CAPACITY)
    at_most("cycles of refusals", length, REFUSED_CAPACITY)
    at_most("words per partition", state.shape[1], config.state_words)
    if state.dtype != config.operand_dtype or len(state) != config.rows:
        needed = f"{config.operand_dtype} ({config.rows}, words)"
        raise ValueError(f"state is {state.dtype} {state.shape}, needed {needed}")
    bits = state.view(np.uint32 if state.itemsize == 4 else np.uint8)
    blocks = (f"@{r * config.state_words:x}\n{hex_words(row)}" for r, row in enumerate(bits))
    (folder / "state.hex").write_text("".join(blocks))
    return {"queue": len(queue), "refused": length, "state": int(state.size > 0)}


def at_most(what: str, count: int, capacity: int) -> None:
    """Refuse what the bench has no room for."""
    if count > capacity:
        raise ValueError(f"{count} {what}, the bench holds {capacity}")


def hex_words(values: NDArray[np.generic]) -> str:
    """Unsigned integers as text for $readmemh (Verilator 5.006 loses an unterminated last word)."""
    big_endian = values.astype(values.dtype.newbyteorder(">"))
    return big_endian.tobytes().hex("\n", values.itemsize) + "\n"


def read_trace(folder: Path, config: RtlConfig, instructions: int, limit: int) -> RtlTrace:
    """Parse the two dumps."""
    text = (folder / "events.txt").read_text()
    lines = np.array(text.split(), dtype=np.int64).reshape(-1, 5)
    ends = lines[lines[:, 0] == END]
    if len(ends) != 1 or ends[0, 1] == 0:
        raise RuntimeError(f"the RTL did not finish its program within {limit} cycles")

    starts = np.full(instructions, -1, dtype=np.int64)
    started = lines[lines[:, 0] == START]
    starts[started[:, 2]] = started[:, 1]
    writes = lines[lines[:, 0] == WRITE, 1:]
    values = writes[:, 3].astype(np.uint32).view(config.sum_dtype)
    moving, weight, shadow, total, valid = read_planes(folder / "planes.hex", config)
    return RtlTrace(
        cycles=int(ends[0, 1]),
        starts=starts,
        reads=lines[lines[:, 0] == READ, 1:4],
        injections=lines[lines[:, 0] == INJECT, 1:4],
        writes=writes[:, :3],
        write_values=values,
        moving=moving,
        weight=weight,
        shadow=shadow,
        sum=total,
        valid=valid,
    )


def read_planes(path: Path, config: RtlConfig) -> tuple[NDArray[np.generic], ...]:
    """moving, weight, shadow, sum and valid, each (cycles, rows, columns)."""
    pes = config.rows * config.columns
    raw = np.frombuffer(bytes.fromhex(path.read_text()) if path.exists() else b"", dtype=np.uint8)
    lines = raw.reshape(-1, 17 * pes)
    words = lines[:, : 16 * pes].copy().view(">u4").astype(np.uint32).view(config.sum_dtype)
    words = words.reshape(-1, config.rows, config.columns, 4)
    valid = lines[:, 16 * pes :].reshape(-1, config.rows, config.columns).astype(bool)
    return (*(np.ascontiguousarray(words[..., i]) for i in range(4)), valid)
