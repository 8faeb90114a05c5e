"""Have the cycles of our runs on our chip moved?"""

import pytest


def test_a_transpose_takes_what_we_worked_out(systolic_run):
    """8 cycles of loads, 8 vectors, 7 + 7 cycles through the array, 8 + 1 of copying out."""
    run = systolic_run("runs/transpose.toml")
    run.assert_cycles(8 + 8 + 14 + 9)
    assert run.units["pe_array"]["loading"] == 8


@pytest.mark.parametrize("path", ["runs/transpose.toml", "runs/layer.toml", "programs/fill.txt"])
def test_nothing_has_moved(systolic_run, path):
    systolic_run(path).assert_unchanged()


def test_one_queue_of_dma(systolic_run):
    systolic_run("runs/layer.toml", set={"chip.dma.queues": 1}).assert_unchanged()


def test_the_other_engine_counts_the_same(systolic_run):
    systolic_run("runs/transpose.toml", engine="register").assert_unchanged()
