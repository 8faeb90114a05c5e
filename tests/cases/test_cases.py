"""Is the value right of what people who do this job asked in public?

Each file beside this one is a question of theirs in our words; its first line says it. Values come
from numpy, counts from the shapes. What cannot be done is in docs/limits.md with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import systolic
from support.command_line import refused, run_command
from support.documents import ROOT
from systolic.config import expand, load_run
from systolic.run.result import Result

HERE = Path(__file__).parent


def ran(name: str, *overrides: str) -> tuple[Result, dict[str, np.ndarray]]:
    """Return the result of a case, and its inputs in float64."""
    config = load_run(HERE / f"{name}.toml", overrides)
    result = systolic.run(config)
    assert result.summary["values"]["equal"] is True
    return result, {k: v.astype(np.float64) for k, v in config.load_inputs().items()}


def points(name: str) -> list[dict[str, Any]]:
    """Return the summaries of a sweep, in the order of its points."""
    config = load_run(HERE / f"{name}.toml")
    return [systolic.run(point.config, values=False).summary for point in expand(config)]


def out(result: Result) -> np.ndarray:
    (found,) = result.outputs.values()
    return np.asarray(found).astype(np.float64)


def near(found: np.ndarray, wanted: np.ndarray, digits: float) -> None:
    """Check that no element is farther off than rounding, of that relative size, makes it."""
    np.testing.assert_allclose(found, wanted, digits, digits * np.abs(wanted).max())


def convolved(x: np.ndarray, w: np.ndarray, pad: int = 0) -> np.ndarray:
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))
    return np.einsum("nyxcij,ijcf->nyxf", windows, w)


def test_a_batch_raises_the_utilisation() -> None:
    found = points("batch")
    for rows, each in zip((1, 8, 64), found, strict=True):
        adds = rows * 1024 * 1000
        assert each["utilisation"] == pytest.approx(adds / (128 * 128 * each["cycles"]))
        assert each["dram_bytes"] == 2 * (rows * 1024 + 1024 * 1000) + 4 * rows * 1000
    shares = [each["utilisation"] for each in found]
    assert shares[1] > 7 * shares[0]
    assert shares[2] > 6 * shares[1]


def test_a_concatenation_of_widths_that_no_tile_divides() -> None:
    result, given = ran("concat_unaligned")
    near(out(result), np.concatenate((given["lhs"], given["rhs"]), 1), 0)


def test_an_output_of_7_by_7() -> None:
    result, given = ran("conv7x7", "workload.data=random")
    near(out(result), convolved(given["source"], given["weights"]), 2**-7)
    (operation,) = result.summary["operations"]
    assert operation["multiply_adds"] == 7 * 7 * 3 * 3 * 512 * 512


def test_a_filter_for_each_channel() -> None:
    result, given = ran("depthwise")
    for channel in (0, 1):
        one = slice(channel, channel + 1)
        wanted = convolved(given["source"][..., one], given["weights"][..., one])
        near(out(result)[..., one], wanted, 1e-5)


def test_a_larger_array_takes_fewer_cycles() -> None:
    cycles = [each["cycles"] for each in points("dim_sweep")]
    # Four times the PEs: less than half of the time, and not less than a quarter.
    assert cycles[0] / 4 < cycles[1] < cycles[0] / 2
    assert cycles[1] / 4 < cycles[2] < cycles[1] / 2


def test_slices_come_to_their_partitions() -> None:
    a = np.random.default_rng(1).standard_normal((2, 128, 512)).astype(np.float16)
    result = systolic.run(HERE / "dma3d.txt", inputs={"a": a})
    np.testing.assert_array_equal(result.outputs["b"], a)


def test_a_row_uses_a_256th_of_what_256_rows_use_and_says_so() -> None:
    many, one = points("gemm_gemv")
    for rows, each in ((256, many), (1, one)):
        adds = rows * 768 * 256
        assert each["utilisation"] == pytest.approx(adds / (128 * 128 * each["cycles"]))
    assert one["cycles"] < many["cycles"]
    assert one["utilisation"] < 0.01 < many["utilisation"]


def test_attention_with_a_head_of_80() -> None:
    result, given = ran("head_80")
    scores = given["q"] @ given["k"]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    near(out(result), weights @ given["v"], 2**-7)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ("u32[12582912,1]{1,0:T(8,128)}", 6442450944),
        ("f32[32,128,32,64]{3,0,2,1:T(8,128)}", 67108864),
    ],
)  # fmt: skip
def test_bytes_that_xla_reported(shape: str, size: int) -> None:
    status, text, _ = run_command("layout", shape)
    assert status == 0
    assert f"bytes                {size}" in text
    assert run_command("layout", "f32[760,1528]{1,0:T(8,128)S(1)}")[0] == 0


def test_a_lone_convolution_of_integers() -> None:
    result, given = ran("lone_conv_out")
    np.testing.assert_array_equal(out(result), convolved(given["source"], given["weights"]))


def test_a_narrow_product_says_that_it_wastes_the_array() -> None:
    result, given = ran("narrow_k", "workload.data=random")
    near(out(result), given["lhs"] @ given["rhs"], 1e-5)
    assert result.summary["utilisation"] < 32 / 128  # of 128 rows 32 hold weights
    turned = ran("narrow_k", 'workload.lhs="bf16[512,32]{0,1}"')[0]
    assert turned.cycles < result.cycles  # nothing is to be transposed
    assert turned.summary["utilisation"] < 32 / 128


def test_a_matmul_of_a_kernel() -> None:
    rng = np.random.default_rng(2)
    given = {
        "lhsT": rng.standard_normal((128, 64)).astype(ml_dtypes.bfloat16),
        "rhs": rng.standard_normal((128, 512)).astype(ml_dtypes.bfloat16),
    }
    result = systolic.run(HERE / "nki_matmul.txt", inputs=given)
    left, right = (each.astype(np.float64) for each in given.values())
    near(result.outputs["y"].astype(np.float64), left.T @ right, 1e-6)
    assert result.summary["units"]["pe_array"]["labels"]["streaming"] == 512


def test_padding_by_the_layer_and_in_memory() -> None:
    """Zeros of a layer's padding are made on the chip: DRAM gives the image without them."""
    layer, given = ran("same_padding")
    near(out(layer), convolved(given["source"], given["weights"], pad=1), 2**-7)
    assert layer.summary["dram_bytes"] == 2 * (14 * 14 * 64 + 3 * 3 * 64 * 64 + 14 * 14 * 64)
    memory, given = ran("pre_padded")
    near(out(memory), convolved(given["source"], given["weights"]), 2**-7)
    assert memory.summary["dram_bytes"] == 2 * (16 * 16 * 64 + 3 * 3 * 64 * 64 + 14 * 14 * 64)


def test_a_product_smaller_than_the_array() -> None:
    result, given = ran("small_5x2x2")
    np.testing.assert_array_equal(out(result), given["lhs"] @ given["rhs"])
    assert result.summary["utilisation"] == 5 * 2 * 2 / (16 * result.cycles)


def test_a_larger_buffer_takes_fewer_bytes_from_dram() -> None:
    path, key = HERE / "sram_size.toml", "chip.state_buffer.bytes_per_partition"
    found = [
        systolic.run(load_run(path, ["sweep=[]", f"{key}={size}"]), values=False).summary[
            "dram_bytes"
        ]
        for size in (8192, 16384, 131072)
    ]
    assert found == sorted(found, reverse=True)
    once = 1024 * 1024 * (2 + 2 + 4)  # each operand and the result pass DRAM once
    assert found[-1] == once < found[0]


def test_a_product_of_4_by_4_by_4_counted_by_hand() -> None:
    """Load 4 rows, stream 4 vectors, cross 3 + 3 PEs, copy 4 words, and one cycle to be there."""
    result, given = ran("tile_4x4", 'workload.lhs="f32[4,4]{0,1}"')
    np.testing.assert_array_equal(out(result), given["lhs"] @ given["rhs"])
    assert result.cycles == 4 + 4 + (3 + 3) + 4 + 1
    assert result.cycles < ran("tile_4x4")[0].cycles <= 2 * result.cycles  # lhs is transposed first


def test_two_networks_at_once_and_the_bytes_of_each() -> None:
    result, given = ran("two_models")
    for name in "ab":
        near(result.outputs[name].astype(np.float64), given[f"x{name}"] @ given[f"w{name}"], 1e-5)
    of = {each["name"]: each["dram_bytes"] for each in result.summary["operations"]}
    assert of == {
        "a": 2 * (8 * 256 + 256 * 512) + 4 * 8 * 512,
        "b": 2 * (4 * 300 + 300 * 400) + 4 * 4 * 400,
    }
    alone = [
        systolic.run(load_run(HERE / "two_models.toml", [f"workload.layers={part}"])).cycles
        for part in ("[0,1]", "[1,2]")
    ]
    assert max(alone) < result.cycles


def test_what_cannot_be_done_is_refused_and_listed() -> None:
    found = refused("run", HERE / "deconv.toml")
    assert '[workload] unknown key "lhs_dilation"' in found
    limits = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert "transposed convolution" in limits
