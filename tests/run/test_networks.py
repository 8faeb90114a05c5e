"""Shipped networks: their meaning by plain numpy, and small siblings on both engines."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import systolic
from support.compare_traces import assert_same
from systolic.compiler.arithmetic import rules_of
from systolic.config import load_run
from systolic.isa.lint.lint import require_clean
from systolic.machine import simulate
from systolic.run.execute import compile_run
from systolic.run.tensors import graph_images, graph_results, initial_accesses
from systolic.shipped import CONFIGS
from systolic.workload import reference_graph
from systolic.workload.operations.take import TakeAttributes

NETWORKS = CONFIGS / "networks"
BLOCK, RESNET = NETWORKS / "bert_block.toml", NETWORKS / "resnet50.toml"
MOBILENET = NETWORKS / "mobilenet_v2.toml"
PREFILL, DECODE = NETWORKS / "gpt2_prefill.toml", NETWORKS / "gpt2_decode.toml"
GPT = {512: 24, 513: 25, 768: 32, 3072: 80, 12: 2, 64: 16, 50257: 40}
SMALLER = {
    BLOCK: {512: 24, 768: 32, 3072: 80, 12: 2, 64: 16},
    PREFILL: GPT,
    DECODE: GPT,
    RESNET: {224: 16, 112: 8, 56: 4, 28: 2, 14: 1, 7: 1,
             64: 4, 128: 8, 256: 16, 512: 32, 1024: 64, 2048: 128, 1000: 10},
    MOBILENET: {224: 16, 112: 8, 56: 4, 28: 2, 14: 1, 7: 1,
                32: 4, 16: 2, 96: 12, 24: 3, 144: 18, 192: 24, 64: 8, 384: 48, 576: 72, 160: 10,
                960: 60, 320: 20, 1280: 40, 1000: 10},
}  # fmt: skip
"""Sizes of a network, and of its sibling: of the block sequence, hidden and inner size, heads."""
STEM = "[7,7,3,64]"


def smaller(path: Path) -> str:
    """Return a network with the same operations and smaller tensors; windows stay as they are."""
    sizes = {str(large): str(small) for large, small in SMALLER[path].items()}

    def tensor(dims: re.Match[str]) -> str:
        if dims[0] == STEM:
            return STEM.replace("64", sizes["64"])
        return re.sub(r"\d+", lambda size: sizes.get(size[0], size[0]), dims[0])

    def tokens(given: re.Match[str]) -> str:
        numbers = list(map(int, re.findall(r"\d+", given[0])))
        fewer = numbers[: SMALLER[path].get(len(numbers), len(numbers))]
        return f"indices = {[number % SMALLER[path][50257] for number in fewer]}"

    text = re.sub(r"\[[\d,]+\]|groups = \d+", tensor, path.read_text(encoding="utf-8"))
    text = re.sub(r"^(start|stop) = .*$", tensor, text, flags=re.MULTILINE)
    return re.sub(r"indices = \[[^\]]+\]", tokens, text)


@pytest.fixture
def sibling(tmp_path: Path) -> Path:
    """Return the block small, with weights that make attention sharp."""
    small, path = smaller(BLOCK), tmp_path / "sibling.toml"
    for at, other in (("scale = 0.125", "scale = 0.25"), ("deviation = 0.036", "deviation = 0.3")):
        assert at in small
        small = small.replace(at, other)
    path.write_text(small, encoding="utf-8")
    return path


@pytest.mark.slow
def test_resnet_with_fast_loads_keeps_three_quarters_of_the_array_busy():
    config = load_run(RESNET, ("chip.pe_array.fast_load=4",))
    cycles = simulate(config.chip, compile_run(config).program, (), values=False).trace.cycles()
    assert 4_089_184_256 / (cycles * 128 * 128) >= 0.75


def test_the_block_is_that_of_the_paper(sibling):
    """Attention, residuals, norms and gelu in float64; the block rounds to bf16 nine times."""
    config = load_run(sibling, ["chip=ideal_128x128"])
    given = {name: np.float64(array) for name, array in config.load_inputs().items()}
    found = np.float64(systolic.run(config).outputs["block"])
    wanted = block(given, heads=2)
    error = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
    assert error < 0.008, error  # a bf16 number has 8 bits: 0.002 in one rounding


GPT_SHARP = (("deviation = 0.036", "deviation = 0.3"), ("= 0.0045", "= 0.1"))
"""Weights with which the attention of few and narrow heads is sharp."""


@pytest.mark.parametrize("network", [PREFILL, DECODE], ids=lambda path: path.stem)
def test_gpt_is_that_of_the_paper(network, tmp_path):
    """Norms before each half, later positions hidden, in float64; products round to bf16."""
    path, small = tmp_path / "sibling.toml", smaller(network)
    for at, other in GPT_SHARP:
        assert at in small
        small = small.replace(at, other)
    path.write_text(small, encoding="utf-8")
    config = load_run(path, ["chip=ideal_128x128"])
    tokens = config.graph.operations[0].attributes_as(TakeAttributes).indices
    given = {name: np.float64(array) for name, array in config.load_inputs().items()}
    found = np.float64(systolic.run(config).outputs["block"])
    wanted = gpt_block(given, list(tokens))
    error = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
    assert error < 0.008, error


def gpt_block(at, tokens, heads: int = 2):
    """Return a block of GPT-2 behind its embedding; cached keys and values come first."""
    x = at["token_table"][tokens] + at["positions"]
    normed = norm(x, at["before_factors"], at["before_terms"])
    query, key, value = (
        np.split(normed @ at[f"{name}_weights"] + at[f"{name}_bias"], heads, axis=1)
        for name in ("query", "key", "value")
    )
    contexts = []
    for head in range(heads):
        keys, values = key[head], value[head]
        if "key_cache" in at:
            keys = np.vstack([at["key_cache"][head].T, keys])
            values = np.vstack([at["value_cache"][head], values])
        contexts.append(causal(query[head], keys, values))
    attended = x + np.hstack(contexts) @ at["output_weights"] + at["output_bias"]
    normed = norm(attended, at["after_factors"], at["after_terms"])
    inner = normed @ at["inner_weights"] + at["inner_bias"]
    gelu = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    return attended + gelu @ at["outer_weights"] + at["outer_bias"]


def causal(query, keys, values):
    """Return the context of the last positions; the factor of the scores is in the query."""
    before = len(keys) - len(query)
    found = []
    for row, one in enumerate(query):
        weights = np.exp(keys[: before + row + 1] @ one)
        found.append(weights @ values[: before + row + 1] / weights.sum())
    return np.array(found)


def block(at, heads: int):
    """Return an encoder block of BERT, float64 [sequence, hidden size]."""
    parts = (
        np.split(at["x"] @ at[f"{name}_weights"] + at[f"{name}_bias"], heads, axis=1)
        for name in ("query", "key", "value")
    )
    context = np.hstack([attention(*head) for head in zip(*parts, strict=True)])
    attended = at["x"] + context @ at["output_weights"] + at["output_bias"]
    first = norm(attended, at["attention_factors"], at["attention_terms"])
    inner = first @ at["inner_weights"] + at["inner_bias"]
    gelu = 0.5 * inner * (1 + np.vectorize(math.erf)(inner / np.sqrt(2)))
    fed = first + gelu @ at["outer_weights"] + at["outer_bias"]
    return norm(fed, at["block_factors"], at["block_terms"])


def attention(query, key, value):
    weights = np.exp(query @ key.T / np.sqrt(query.shape[1]))
    return weights / weights.sum(axis=1, keepdims=True) @ value


def norm(x, factors, terms):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * factors + terms


def test_resnet_has_all_its_multiply_adds():
    """4,089,184,256 of one image, the product of the classes among them (He et al., table 1)."""
    graph = load_run(RESNET).graph
    found = 0
    for op in graph.operations:
        if op.kind in ("conv2d", "matmul"):
            *window, _ = graph.shape(op.inputs[1]).dims
            found += math.prod(graph.shape(op.output).dims) * math.prod(window)
    assert found == 4_089_184_256


def test_mobilenet_has_all_its_multiply_adds():
    """300,774,272 of one image: expansion, nine taps, and projection of each bottleneck by hand."""
    graph = load_run(MOBILENET).graph
    found = sum(
        math.prod(graph.shape(op.output).dims) * math.prod(graph.shape(op.inputs[1]).dims[:-1])
        for op in graph.operations
        if op.kind in ("conv2d", "matmul")
    )
    wanted, side, channels = 27 * 32 * 112**2, 112, 32
    for expansion, filters, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(count):
            inner = expansion * channels
            wanted += side**2 * channels * inner if expansion > 1 else 0
            side //= stride if number == 0 else 1
            wanted += side**2 * inner * (9 + filters)
            channels = filters
    wanted += side**2 * 320 * 1280 + 1280 * 1000
    assert found == wanted == 300_774_272


def script(name: str):
    """Return a script beside the networks as a module."""
    spec = importlib.util.spec_from_file_location(name, NETWORKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


def test_mobilenet_is_what_its_script_writes():
    assert script("make_mobilenet_v2").text() == MOBILENET.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_int8_networks_are_what_their_script_writes():
    for path, text, arrays in script("quantise_networks").files():
        assert text == path.read_text(encoding="utf-8")
        with np.load(path.with_suffix(".npz")) as shipped:
            assert {name: array.tobytes() for name, array in shipped.items()} == {
                name: array.tobytes() for name, array in arrays.items()
            }


def small_int8(network: Path, folder: Path) -> Path:
    """Write the sibling of an int8 network, quantised from that of the bf16 one."""
    made = script("quantise_networks").quantised(network.stem, smaller(network))
    path = folder / f"{network.stem}_int8.toml"
    path.write_text(made.text("sibling"), encoding="utf-8")
    np.savez(path.with_suffix(".npz"), **made.arrays)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "chip"),
    [(BLOCK, "ideal_4x4"), (BLOCK, "ideal_128x128"), (RESNET, "ideal_128x128"),
     (PREFILL, "ideal_4x4"), (PREFILL, "ideal_128x128"), (DECODE, "ideal_4x4"),
     (DECODE, "ideal_128x128"), (MOBILENET, "ideal_128x128")],
    ids=lambda value: getattr(value, "stem", value),
)  # fmt: skip
def test_a_small_sibling_runs_alike_on_both_engines(network, chip, tmp_path):
    path = tmp_path / "sibling.toml"
    path.write_text(smaller(network), encoding="utf-8")
    runs_alike(path, chip)


@pytest.mark.parametrize("network", [RESNET, MOBILENET], ids=lambda path: path.stem)
def test_a_small_int8_sibling_runs_alike_on_both_engines(network, tmp_path):
    runs_alike(small_int8(network, tmp_path), "ideal_128x128")


def runs_alike(path: Path, chip: str) -> None:
    """Both engines leave equal records, and the bits of numpy."""
    config = load_run(path, [f"chip={chip}", "chip.state_buffer.bytes_per_partition=65536"])
    compiled = compile_run(config)
    require_clean(compiled.program, config.chip, initial_accesses(compiled))
    inputs = config.load_inputs()
    images = graph_images(compiled, inputs)
    runs = [
        simulate(config.chip, compiled.program, images, engine=engine)
        for engine in ("event", "register")
    ]
    assert_same(*runs)
    own = compiled.arithmetic.own
    wanted = reference_graph(config.graph, inputs, rules_of(config.chip), own)
    found = graph_results(compiled, runs[0].memory)
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in wanted.items()
    }
