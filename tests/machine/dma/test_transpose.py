"""Does DMA transpose on the way: the values, the cycles, and what may be transposed.

Values are held against numpy. Times are worked out by hand, and from a closed form that counts
the cycles in which bytes move. Both engines must leave the same records of random programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from support.chips import ideal_chip
from support.compare_traces import assert_same
from support.random_programs import random_chip, spread_over_engines
from support.random_transfers import CONSTANTS, RandomTransfers
from support.tiers import quick_first
from systolic.config import load_chip
from systolic.engine_kind import EngineKind
from systolic.errors import ProgramError
from systolic.hw.datatypes import data_type
from systolic.hw.formulas.timing import dma_transpose_cycles
from systolic.hw.spec import Chip
from systolic.isa import (
    Access,
    Buffer,
    DmaCopy,
    DmaTranspose,
    Program,
    check_program,
    decode,
    encode,
    format_text,
    lint,
    parse_text,
)
from systolic.machine import Image, simulate
from systolic.shipped import CHIPS
from systolic.trace.words import KINDS

ENGINES: tuple[EngineKind, ...] = ("event", "register")
both = pytest.mark.parametrize("engine", ENGINES)
COST, RATE = 105, 23
THERE = 32768
TRANSPOSES = {"element_bytes": (2, 4), "dram_percent": 90, "state_buffer_percent": 50}


def chip(*, transposes: Any = TRANSPOSES, **dma: object) -> Chip:
    """Return a chip with the DMA engines of the third NeuronCore, and no latency."""
    keys = {
        "queues": 4,
        "engines": 16,
        "partitions_per_engine": 8,
        "bytes_per_cycle": RATE,
        "descriptor_cycles": COST,
        "descriptor_cost": "max",
        "transposes": transposes,
        **dma,
    }
    return ideal_chip(128, 128, dma=keys, dram={"bytes_per_cycle": 2900},
                      state_buffer={"bytes_per_partition": 131072})  # fmt: skip


def in_dram(rows: int, cols: int, dtype: str, line: int | None = None) -> Access:
    """Return a matrix in DRAM whose rows begin `line` elements apart (default: no gaps)."""
    pattern = ((line, rows), (1, cols)) if line else ((1, rows * cols),)
    return Access(Buffer.DRAM, dtype, 0, 1, 64, pattern)


def on_chip(partitions: int, elements: int, dtype: str, *, at: int = 0, first: int = 0) -> Access:
    return Access(Buffer.STATE, dtype, first, partitions, at, ((1, elements),))


def transpose(source: Access, rows: int, cols: int, **keys: Any) -> DmaTranspose:
    target = on_chip(cols, rows, source.dtype, at=THERE)
    return DmaTranspose(dma_queue=0, source=source, target=replace(target, **keys))


def any_matrix(rows: int, cols: int, dtype: str) -> Any:
    """Return a matrix of random bits: infinities, NaNs and -0.0 among them."""
    element = data_type(dtype).numpy
    bits = np.random.default_rng(7).integers(0, 1 << 8 * element.itemsize, (rows, cols), np.uint64)
    return bits.astype(f"u{element.itemsize}").view(element)


def end_of(on: Chip, engine: EngineKind, *copies: DmaCopy) -> int:
    trace = simulate(on, Program("p", copies), values=False, engine=engine).trace
    return max(time.done for time in trace.times) + 1


# -- values ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("dtype", ["bf16", "f32", "s32"])
@pytest.mark.parametrize(("rows", "cols"), [(40, 24), (3, 128), (128, 3), (1, 5), (5, 1)])
@pytest.mark.parametrize("home", ["dram", "gaps", "state_buffer"])
def test_a_transpose_is_that_of_numpy(
    engine: EngineKind, dtype: str, rows: int, cols: int, home: str
) -> None:
    if home == "state_buffer":
        source = on_chip(rows, cols, dtype)
    else:
        source = in_dram(rows, cols, dtype, cols + 9 if home == "gaps" else None)
    matrix = any_matrix(rows, cols, dtype)
    copy = transpose(source, rows, cols)
    image = Image(source, matrix.reshape(source.partitions, source.elements))
    outcome = simulate(chip(), Program("p", (copy,)), [image], engine=engine)
    unsigned = f"u{matrix.itemsize}"
    found = outcome.memory.read(copy.target).view(unsigned)
    np.testing.assert_array_equal(found, matrix.view(unsigned).T)


@both
def test_rows_and_elements_of_the_target_may_lie_apart(engine: EngineKind) -> None:
    """A target in three pieces of each partition: each is a run, filled from every row."""
    matrix = any_matrix(12, 6, "bf16")
    source = in_dram(12, 6, "bf16")
    copy = transpose(source, 12, 6, pattern=((7, 3), (1, 4)), partition=9)
    image = Image(source, matrix.reshape(1, 72))
    outcome = simulate(chip(), Program("p", (copy,)), [image], engine=engine)
    found = outcome.memory.read(copy.target)
    np.testing.assert_array_equal(found.view("u2"), matrix.T.view("u2"))
    assert outcome.trace.transfers.runs == {8: 18}


# -- cycles ----------------------------------------------------------------------------------------


@both
def test_bytes_move_in_nine_cycles_of_ten_from_dram(engine: EngineKind) -> None:
    """4096 bytes for each partition take an engine 179 cycles of 23 bytes: 199 of ten with nine.

    The next of the 8 rows begins where the tenth lies elsewhere. All 8 take 8 * 179 = 1432 cycles
    in which bytes move: 159 whole tens, and one cycle more.
    """
    copy = transpose(in_dram(2048, 128, "bf16"), 2048, 128)
    assert end_of(chip(), engine, copy) == 159 * 10 + 1


@both
def test_bytes_move_in_every_other_cycle_on_the_chip(engine: EngineKind) -> None:
    copy = transpose(on_chip(128, 128, "f32"), 128, 128)
    alone = chip(descriptor_cycles=0)
    assert end_of(alone, engine, copy) == 2 * 8 * 23 - 1  # 512 bytes are 23 cycles of 23


@both
def test_a_short_row_takes_what_a_row_of_a_copy_takes(engine: EngineKind) -> None:
    copy = transpose(in_dram(32, 128, "bf16"), 32, 128)
    assert end_of(chip(), engine, copy) == 8 * COST


@both
@pytest.mark.parametrize("percent", [100, 90, 75, 50, 34, 7])
@pytest.mark.parametrize("cost", ["max", "sum"])
@pytest.mark.parametrize(("rows", "cols"), [(700, 128), (31, 24), (1024, 8)])
def test_the_closed_form_says_the_same(
    engine: EngineKind, percent: int, cost: str, rows: int, cols: int
) -> None:
    on = chip(
        transposes={"element_bytes": (4,), "dram_percent": percent},
        descriptor_cost=cost,
        descriptor_cycles=11,
    )
    copy = transpose(in_dram(rows, cols, "f32"), rows, cols)
    formula = dma_transpose_cycles(on, rows, cols, 4, from_dram=True)
    assert end_of(on, engine, copy) == formula


@both
def test_a_transpose_shares_its_engines_with_a_copy(engine: EngineKind) -> None:
    """Both have half an engine, as two copies do; the transpose leaves a tenth of its half idle."""
    row = 11 * 90 // 4 * 4
    turned = transpose(in_dram(row // 4, 8, "f32"), row // 4, 8)
    source = Access(Buffer.DRAM, "u8", 0, 1, 1 << 20, ((1, 8 * 40000),))
    beside = DmaCopy(dma_queue=1, source=source, target=on_chip(8, 40000, "u8", at=65536))
    alone = end_of(chip(descriptor_cycles=0), engine, turned)
    trace = simulate(
        chip(descriptor_cycles=0), Program("p", (turned, beside)), values=False, engine=engine
    ).trace
    done = next(time.done for time in trace.times if time.instruction == 0) + 1
    assert 1.95 < done / alone < 2.05


# -- both engines agree ----------------------------------------------------------------------------


class WithTransposes(RandomTransfers):
    """Random transfers every other one of which is a transpose."""

    def _copy(self) -> None:
        if self.rng.random() < 0.4:
            super()._copy()
            return
        dtype = self.rng.choice(["bf16", "f32"])
        size, there = data_type(dtype).size_bytes, self.chip.state_buffer.partitions
        cols = self.rng.choice([1, min(3, there), there])
        inside = self.rng.random() < 0.5
        most = min(there, 40) if inside else 40
        rows = self.rng.randint(1, most)
        if rows * cols * size > CONSTANTS or cols * size > CONSTANTS:
            return
        if inside:
            bank = self.chip.state_buffer.bank_bytes
            at = self.rng.randint(0, (min(CONSTANTS, bank) - cols * size) // size) * size
            first = self.rng.randint(0, there - rows)
            source = Access(Buffer.STATE, dtype, first, rows, at, ((1, cols),))
        else:
            gap = self.rng.choice([0, 0, 1, 5])
            line = cols + gap if (rows * (cols + gap)) * size <= CONSTANTS else cols
            pattern = ((1, rows * cols),) if line == cols else ((line, rows), (1, cols))
            source = Access(Buffer.DRAM, dtype, 0, 1, self._start(size, pattern), pattern)
        target = self._into_state(dtype, size, cols, rows)
        if target is not None:
            queue = self.rng.randrange(self.chip.dma.queues)
            self.instructions.append(
                DmaTranspose(dma_queue=queue, source=source, target=target, **self._links())
            )


def turning(on: Chip, rng: Random) -> Chip:
    """Return a chip that transposes at some rate."""
    tables = on.model_dump()
    tables["dma"]["transposes"] = {
        "element_bytes": (2, 4),
        "dram_percent": rng.choice([100, 90, 66, 50, 30]),
        "state_buffer_percent": rng.choice([100, 90, 50, 25]),
    }
    tables["dram"]["bytes_per_cycle"] *= 2 * tables["dma"]["queues"]
    return Chip.model_validate(tables)


def random_chips(seed: int) -> tuple[Random, Chip]:
    rng = Random(seed)
    on = random_chip(rng, clocks=seed % 3 == 0, largest=9)
    return rng, turning(spread_over_engines(on, rng) if seed % 2 else on, rng)


@pytest.mark.parametrize("seed", quick_first(range(400), 20))
def test_both_engines_say_the_same_of_random_programs(seed: int) -> None:
    rng, on = random_chips(seed)
    program, images = WithTransposes(rng, on).build(rng.randint(2, 16))
    check_program(program, on)
    event = simulate(on, program, images, kinds=KINDS)
    assert_same(event, simulate(on, program, images, kinds=KINDS, engine="register"))


def test_random_programs_transpose_from_both_memories() -> None:
    found = set()
    for seed in range(40):
        rng, on = random_chips(seed)
        program, _ = WithTransposes(rng, on).build(rng.randint(2, 16))
        turned = (i for i in program.instructions if isinstance(i, DmaTranspose))
        found |= {(on.dma.is_spread, each.source.buffer) for each in turned}
    assert len(found) == 4


# -- what may be transposed ------------------------------------------------------------------------


GOOD = transpose(in_dram(24, 16, "f32"), 24, 16)


def refusals() -> Iterator[tuple[DmaTranspose, Chip, str]]:
    yield GOOD, chip(transposes=None), "DMA of test 128 x 128 does not transpose (dma.transposes)"
    yield (
        transpose(in_dram(24, 16, "u8"), 24, 16),
        chip(),
        "source: DMA of test 128 x 128 transposes elements of 2 or 4 bytes "
        "(dma.transposes.element_bytes), u8 has 1",
    )
    yield (
        transpose(on_chip(24, 16, "f32"), 24, 16),
        chip(transposes={"element_bytes": (4,), "dram_percent": 90}),
        "source: DMA of test 128 x 128 transposes from DRAM alone "
        "(dma.transposes.state_buffer_percent), found state_buffer",
    )
    yield (
        DmaTranspose(dma_queue=0, source=GOOD.source, target=in_dram(16, 24, "f32")),
        chip(),
        "target: must lie in the state buffer, found dram",
    )
    yield (
        transpose(on_chip(16, 24, "f32"), 24, 16),
        chip(),
        "source: the target has 16 partitions of 24 elements, so needed 24 partitions of 16, "
        "found 16 of 24",
    )
    yield (
        transpose(on_chip(24, 16, "f32", at=16384 - 32), 24, 16),
        chip(),
        "source: what is transposed on the chip must lie in one bank of 16384 bytes, found bytes "
        "16352 to 16416",
    )
    yield (
        transpose(replace(GOOD.source, pattern=((1, 16), (16, 24))), 24, 16),
        chip(),
        "source: the 16 elements of a row, one for each partition of the target, must lie side by "
        "side, found 24 with a step of 16",
    )
    yield (
        transpose(GOOD.source, 23, 16),
        chip(),
        "source has 384 elements, target 368",
    )


@pytest.mark.parametrize(("copy", "on", "message"), [*refusals()])
def test_what_cannot_be_transposed_is_refused(copy: DmaTranspose, on: Chip, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        check_program(Program("p", (copy,)), on)
    assert str(caught.value) == f"p: instruction 0 (DmaTranspose): {message}"


def test_a_transpose_in_place_is_a_finding_of_lint() -> None:
    here = on_chip(16, 16, "f32")
    copy = DmaTranspose(dma_queue=0, source=here, target=here)
    (finding,) = lint(Program("p", (copy,)), chip())
    assert "reads what it may have overwritten" in str(finding)
    assert not lint(Program("p", (transpose(here, 16, 16),)), chip())


def test_both_forms_of_a_program_have_it() -> None:
    program = Program("p", (GOOD,))
    text = format_text(program)
    assert "dma_transpose" in text
    assert parse_text(text).program == program
    assert decode(encode(program)).program == program


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"dram": {"bytes_per_cycle": 7}},
            "dma.transposes: each of up to 8 shares of DRAM (two for each queue) needs a byte in "
            "every cycle, but dram.bytes_per_cycle is 7",
        ),
        (
            {"dma": {"transposes": {"element_bytes": (), "dram_percent": 90}}},
            "element_bytes",
        ),
        ({"dma": {"transposes": {"element_bytes": (2,), "dram_percent": 101}}}, "dram_percent"),
    ],
)
def test_a_chip_says_what_its_transposes_need(tables: dict[str, Any], message: str) -> None:
    parts = chip().model_dump()
    for table, keys in tables.items():
        parts[table] |= keys
    with pytest.raises(ValueError, match=message.split("(", maxsplit=1)[0]):
        Chip.model_validate(parts)


def test_dram_with_an_organisation_has_no_transposes() -> None:
    parts = load_chip(CHIPS / "ddr4_128x128.toml").model_dump()
    parts["dma"]["transposes"] = TRANSPOSES
    with pytest.raises(ValueError, match="so that dram cannot have an organisation"):
        Chip.model_validate(parts)
