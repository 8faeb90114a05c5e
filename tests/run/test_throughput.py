"""Images per second: by hand from cycles and clocks; a batch shares what a run begins with."""

from __future__ import annotations

import re

import numpy as np
import pytest

import systolic
from support.chips import ideal_chip
from support.command_line import run_command
from systolic.config import load_run
from systolic.shipped import CONFIGS
from systolic.workload import GraphBuilder

MLP = CONFIGS / "networks" / "digits_mlp.toml"


def convolution(images: int):
    builder = GraphBuilder("dram")
    x = builder.tensor("x", f"f32[{images},5,5,3]")
    w = builder.tensor("w", "f32[3,3,3,4]")
    builder.add("conv2d", (x, w), f"f32[{images},3,3,4]", name="y")
    return builder.graph()


def run(images: int, mhz: int = 1000):
    data = {"x": np.ones((images, 5, 5, 3), np.float32), "w": np.ones((3, 3, 3, 4), np.float32)}
    return systolic.run(convolution(images), ideal_chip(4, 4, clock={"core": mhz}), data)


@pytest.mark.parametrize("mhz", [1000, 250])
def test_images_are_divided_by_the_time_of_the_clock(mhz):
    found = run(6, mhz)
    assert found.summary["images_per_second"] == pytest.approx(6 * mhz * 1e6 / found.cycles)


def test_a_batch_takes_less_time_for_an_image():
    rates = [run(images).summary["images_per_second"] for images in (1, 2, 8)]
    assert rates == sorted(rates)
    assert rates[-1] > 1.2 * rates[0]


def test_the_scores_of_a_network_without_convolutions_are_of_its_images():
    """1,797 digits at 1,000 MHz, with values and without; the table has them in whole images."""
    found = systolic.run(load_run(MLP), values=False)
    wanted = 1797 * 1e9 / found.cycles
    assert found.summary["images_per_second"] == pytest.approx(wanted)
    status, out, err = run_command("run", MLP, "--no-plots", "--values=none")
    assert (status, err) == (0, "")
    assert re.search(rf"images +{round(wanted):,} per second", out)


def test_other_graphs_have_no_images():
    found = systolic.run(load_run(CONFIGS / "runs" / "matmul_chain.toml"), values=False)
    assert "images_per_second" not in found.summary
