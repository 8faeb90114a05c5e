"""What each measure reads of a row's run, against cases worked by hand on the 4 x 4 chip."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.validation_rows import LOAD, MULTIPLY, csv_text
from systolic.errors import SystolicError
from systolic.run.validation.table import read_table
from systolic.run.validation.validate import judged
from systolic.shipped import CONFIGS, RUNS

DMA = "dma q0 source=state_buffer[0:1]+0 f32 (1x256) target=dram[0:1]+0 f32 (1x256)"


def measured(folder: Path, **cells: str):
    file = folder / "t.csv"
    file.write_text(csv_text(cells), encoding="utf-8")
    (row,) = read_table(file)
    return judged(row).ours


def refusal(folder: Path, **cells: str) -> str:
    with pytest.raises(SystolicError) as error:
        measured(folder, **cells)
    return str(error.value).removeprefix(f"{folder / 't.csv'}:2: row one: ")


def test_the_length_of_a_run(tmp_path):
    """Weights are read in cycles 0 to 3, vectors in 4 to 6; the last passes 3 rows, 3 columns."""
    assert measured(tmp_path) == 6 + 3 + 3 + 1
    assert measured(tmp_path, unit="ns", set="chip.clock.core=500") == 2 * 13
    assert measured(tmp_path, unit="us", set="chip.clock.core=500") == pytest.approx(0.026)
    assert measured(tmp_path, unit="activation cycles", set="chip.clock={core=1000, slow=500}; "
                    "chip.activation.clock=slow") == pytest.approx(6.5)  # fmt: skip


def test_what_one_more_repetition_takes(tmp_path):
    """Four cycles of weights cover three vectors; with the weights once before, the vectors."""
    chain = {"measure": "each", "repeat": "5"}
    assert measured(tmp_path, **chain) == 4
    assert measured(tmp_path, **chain, before=LOAD, program=MULTIPLY) == 3


def test_waits_of_a_repetition_are_for_the_posts_before_it_too(tmp_path):
    """From the first vector to the last sum 2 + 3 + 3 cycles, and one to the post."""
    program = f"{MULTIPLY} wait s0>=0 post s0"
    found = measured(tmp_path, measure="each", repeat="5", before=LOAD, program=program)
    assert found == 2 + 3 + 3 + 1


def test_rates_of_the_array(tmp_path):
    """4 x 4 weights and 3 vectors are 96 operations in 4 ns; 4 x 4 PEs would make 128."""
    chain = {"measure": "array_rate", "repeat": "5"}
    assert measured(tmp_path, **chain, unit="GFLOPS") == pytest.approx(96 / 4)
    assert measured(tmp_path, **chain, unit="TFLOPS") == pytest.approx(0.024)
    assert measured(tmp_path, **chain, unit="%") == pytest.approx(75)


def test_rates_of_copies(tmp_path):
    """1024 bytes: 642 cycles of latency, 7 for the descriptor, 20 at DRAM's 53 bytes a cycle."""
    chain = {"measure": "dma_rate", "repeat": "5", "program": DMA}
    assert measured(tmp_path, **chain, unit="bytes/ns") == pytest.approx(1024 / 669)
    assert measured(tmp_path, **chain, unit="%") == pytest.approx(100 * 1024 / 669 / (2 * 272))


def test_numbers_of_the_summary_and_of_the_chip(tmp_path):
    counts = {"measure": "summary", "repeat": "3", "unit": ""}
    assert measured(tmp_path, **counts, of="instructions.MatMul") == 3
    key = "units.pe_array.labels.streaming"
    assert measured(tmp_path, **counts, of=f"{key} * instructions.MatMul") == 9 * 3
    size = "state_buffer.partitions * state_buffer.bytes_per_partition"
    found = measured(tmp_path, measure="chip", program="", of=size, unit="KiB")
    assert found == 4 * 16


def test_the_largest_number_that_is_legal(tmp_path):
    """A bank of 2 KiB has 512 sums; the array has 4 columns; there is no engine "nobody"."""
    sizes = MULTIPLY.replace("1x3", "1x{n}")
    probe = {"measure": "largest", "unit": ""}
    assert measured(tmp_path, **probe, program=f"{LOAD}; {sizes}") == 512
    assert measured(tmp_path, **probe, program=LOAD.replace("1x4", "1x{n}")) == 4
    assert measured(tmp_path, **probe, program=LOAD.replace("0:4", "0:{n}")) == 4
    memset = "memset nobody target=state_buffer[0:{n}]+64 f32 (1x1) value=0"
    assert measured(tmp_path, **probe, program=memset) == 0


def test_legal_or_not(tmp_path):
    legal = {"measure": "legal", "unit": ""}
    assert measured(tmp_path, **legal) == 1
    assert measured(tmp_path, **legal, program=LOAD.replace("0:4", "1:5")) == 0


def test_a_run_file_and_a_program_file(tmp_path):
    run = str(RUNS / "transpose_fig3.toml")
    assert measured(tmp_path, chip="", program="", run=run) == 19
    slower = {"set": "chip.pe_array.entry_cycles=3", "run": run, "program": "", "chip": ""}
    assert measured(tmp_path, **slower) == 22
    program = str(CONFIGS / "programs" / "layer.txt")
    assert measured(tmp_path, chip="", program="", run=program) > 0


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"chip": ""}, "chip: needs a name or a file"),
        ({"set": "engine=event"}, 'set: without a run file only "chip." can be set'),
        ({"run": "a.toml"}, "length needs run or program, found run and program"),
        ({"program": ""}, "length needs run or program, found neither"),
        ({"measure": "each", "run": "a.toml", "program": ""}, "each needs program, found run"),
        (
            {"unit": "vector cycles"},
            'unit: the chip has no unit "vector" (it has: pe_array, activation, pooling, dma)',
        ),
        ({"measure": "largest", "unit": ""}, "program: largest needs {n} in place of a number"),
        (
            {"measure": "chip", "unit": ""},
            "of: chip needs a dotted key, or several with *",
        ),
        (
            {"measure": "chip", "unit": "", "of": "pe_array.row"},
            'of: the chip has no "pe_array.row" (at "row"; known there: rows, cols, weight_path, ',
        ),
        (
            {"measure": "chip", "unit": "", "of": "name"},
            'of: the chip has no number at "name"',
        ),
    ],
)
def test_what_cannot_be_measured(cells, message, tmp_path):
    assert refusal(tmp_path, **cells).startswith(message)


def test_an_error_of_the_program_names_the_row(tmp_path):
    with pytest.raises(SystolicError) as error:
        measured(tmp_path, program="laod weights=1")
    assert str(error.value).startswith(f"{tmp_path / 't.csv'}:2: row one")
    assert "laod" in str(error.value)
