"""Are lists of engines refused in one line if they cannot be, and written back as they were?"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from support.command_line import refused
from support.random_programs import random_chip
from systolic.config import load_chip, to_toml
from systolic.errors import ConfigError
from systolic.hw.units import CAPABILITIES

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
PATENT = (CHIPS / "ideal_4x4.toml").read_text(encoding="utf-8")
TABLES = PATENT[PATENT.index("[activation]") : PATENT.index("[dma]")]
LISTED = """
[engines.vector]
does = ["copy", "tensor_tensor"]

[[engines.vector.rates]]
does = ["tensor_tensor"]
types = ["bf16"]
operands = ["state_buffer", "result_buffer"]
target = "state_buffer"
stride_bytes = 16
elements = 1
cycles = 2

[engines.scalar]
does = ["copy", "activate"]
reads = ["result_buffer"]

"""
CHIP = PATENT.replace(TABLES, LISTED).replace(
    "[state_buffer]\n", "[state_buffer]\nport_bytes = 64\n"
)
THE_PATENTS = "copy, memset, activate, pool, tensor_tensor, tensor_scalar, iota, select, requantise"
WORDS = ", ".join(CAPABILITIES)
SHOWN = ", ".join(f'"{word}"' for word in tuple(CAPABILITIES)[:20])
QUOTED = f"{SHOWN} and {len(CAPABILITIES) - 20} others"
IN_USE = (
    "an engine cannot have a name in use: pe_array, dma, dram, moving, weights, state_buffer, "
    "result_buffer, issue, fetch, dma0, dma1, ..."
)
LETTERS = (
    "the name of an engine has 1 to 32 of the characters a to z, 0 to 9 and _, and begins with a "
    "letter"
)
VECTOR, RATE = "[engines.vector]", "[engines.vector.rates #1]"


def load(text: str, folder: Path):
    path = folder / "chip.toml"
    path.write_text(text, encoding="utf-8")
    return load_chip(path)


def test_a_list_is_the_whole_list_in_its_order(tmp_path: Path) -> None:
    chip = load(CHIP, tmp_path)
    assert list(chip.lane_engines) == ["vector", "scalar"]
    assert chip.units == ("pe_array", "vector", "scalar", "dma0", "dma1")
    assert chip.port_priority == ("moving", "weights", "vector", "scalar", "dma")
    assert (chip.activation, chip.pooling) == (None, None)


def test_without_a_list_the_patents_engines_do_what_they_did() -> None:
    chip = load_chip(CHIPS / "ideal_4x4.toml")
    assert list(chip.lane_engines) == ["activation", "pooling"]
    every = set(THE_PATENTS.split(", "))
    assert set(chip.engine("activation").does) == every - {"pool"}
    assert set(chip.engine("pooling").does) == every - {"activate"}


FAULTS = {
    "nothing": ('does = ["copy", "tensor_tensor"]', "does = []",
                f"{VECTOR} does: needs at least one of {WORDS}"),
    "nothing said": ('does = ["copy", "tensor_tensor"]', "",
                     f"{VECTOR} does: needs at least one of {WORDS}"),
    "no such thing": ('does = ["copy", "tensor_tensor"]', 'does = ["cpoy"]',
                      f"{VECTOR} does: entry 1 needs one of {QUOTED}, "
                      'found "cpoy"; perhaps "copy" was meant'),
    "twice": ('does = ["copy", "activate"]', 'does = ["copy", "copy"]',
              '[engines.scalar] does: names "copy" more than once'),
    "writes nothing": ('reads = ["result_buffer"]', "writes = []",
                       "[engines.scalar] writes: needs at least one of state_buffer, "
                       "result_buffer"),
    "reads DRAM": ('reads = ["result_buffer"]', 'reads = ["dram"]',
                   '[engines.scalar] reads: entry 1 needs one of "state_buffer", "result_buffer", '
                   'found "dram"'),
    "name of a queue": ("[engines.scalar]", "[engines.dma7]", f"[engines] dma7: {IN_USE}"),
    "name of a client": ("[engines.scalar]", "[engines.weights]", f"[engines] weights: {IN_USE}"),
    "name of a unit": ("[engines.scalar]", "[engines.pe_array]", f"[engines] pe_array: {IN_USE}"),
    "capitals": ("[engines.scalar]", "[engines.Vector]", f"[engines] Vector: {LETTERS}"),
    "digits": ("[engines.scalar]", "[engines.3d]", f"[engines] 3d: {LETTERS}"),
    "unknown key": ('reads = ["result_buffer"]', "latency = 3",
                    '[engines.scalar] unknown key "latency" (known: clock, dispatch, '
                    "dispatch_cycles, does, elements_per_cycle, fixed_cycles, functions, gathers, "
                    "independent_lanes, latency_cycles, min_interval_cycles, rates, reads, "
                    "result_operands, table_cycles, tables, writes); "
                    'perhaps "latency_cycles" was meant'),
    "clock": ('reads = ["result_buffer"]', 'clock = "slow"',
              'engines.scalar.clock: no clock "slow" (there are: core)'),
    "the patent's beside": ("[engines.scalar]", "[pooling]\n\n[engines.scalar]",
                            "pooling: stands beside the table engines, which lists all engines of "
                            "the chip: vector, scalar; [engines.pooling] adds one of this name"),
    "priority": ("semaphore_cycles = 1",
                 'port_priority = ["moving", "weights", "vector", "pooling", "dma"]',
                 "port_priority: must name each of moving, weights, vector, scalar, dma once, "
                 'found "pooling"'),
    "rate of a stranger": ('does = ["tensor_tensor"]', 'does = ["activate"]',
                           '[engines] vector: rates: entry 1: does: the engine has no "activate" '
                           "(it has: copy, tensor_tensor)"),
    "rate of nothing": ("elements = 1", "elements = 0",
                        f"{RATE} elements: needs an integer >= 1, found 0"),
    "rate without elements": ("elements = 1", "", f"{RATE} elements: is missing; needs an integer "
                              ">= 1"),
    "rate in no time": ("cycles = 2", "cycles = 0", f"{RATE} cycles: needs an integer >= 1, "
                        "found 0"),
    "rate of a type": ('types = ["bf16"]', 'types = ["bf61"]',
                       f'{RATE} types: unknown data type "bf61" (known: f32, bf16, f16, f8e4m3fn, '
                       "f8e5m2, s8, u8, s32)"),
    "rate of no function": ('does = ["tensor_tensor"]', 'functions = ["add then multply"]',
                            f'{RATE} functions: there is no function "multply"; perhaps "multiply" '
                            "was meant"),
    "function of no instruction": ('reads = ["result_buffer"]', 'functions = { pool = ["max"] }',
                                   '[engines] scalar: functions: the engine does not do "pool" '
                                   "(it does: copy, activate)"),
    "gathers of no engine": ('reads = ["result_buffer"]',
                             "gathers = { index_cycles = 28, element_cycles = 4 }",
                             '[engines] scalar: gathers: the engine does not do "local_gather" '
                             "(it does: copy, activate)"),
    "no function": ('reads = ["result_buffer"]', "functions = { activate = [] }",
                    "[engines.scalar] functions: activate: needs at least one function"),
    "no such function": ('reads = ["result_buffer"]', 'functions = { activate = ["gleu"] }',
                         '[engines.scalar] functions: there is no function "gleu"; perhaps "gelu" '
                         "was meant"),
    "empty table": ('reads = ["result_buffer"]', 'tables = [["sin"], []]',
                    "[engines.scalar] tables: a table needs at least one function"),
    "table of nothing": ('reads = ["result_buffer"]', 'tables = [["sine"]]',
                         '[engines.scalar] tables: there is no function "sine"; perhaps "sin" was '
                         "meant"),
    "handed over by a stranger": ("semaphore_cycles = 1", "handoff_cycles = { sclar = 3 }",
                                  'handoff_cycles: no unit "sclar" (there are: pe_array, vector, '
                                  'scalar, dma); perhaps "scalar" was meant'),
    "begins nowhere": ("[engines.scalar]",
                       "[[access.start]]\npartitions = 2\nstarts = []\n\n[engines.scalar]",
                       "[access.start #1] starts: needs at least one partition, from 0 on"),
    "no results at all": ('reads = ["result_buffer"]', "result_operands = 0",
                          "[engines.scalar] result_operands: needs an integer >= 1, found 0"),
    "excluded by nothing": ("[engines.scalar]",
                            '[[exclusions]]\nengines = ["vector"]\nbuffer = "state_buffer"\n\n'
                            "[engines.scalar]",
                            "[exclusions #1] engines: needs two or more engines, each once, found "
                            "vector"),
    "excluded by a stranger": ("[engines.scalar]",
                               '[[exclusions]]\nengines = ["vector", "scalr"]\n'
                               'buffer = "result_buffer"\n\n[engines.scalar]',
                               'exclusions: entry 1: no engine "scalr" (there are: vector, '
                               'scalar); perhaps "scalar" was meant'),
    "too wide": ("elements = 1", "elements = 65",
                 "engines.vector.rates entry 1 (65 in 2 cycles) could never be reached: 65 of the "
                 "smallest elements (2 bytes) in 2 cycles are more than state_buffer.port_bytes "
                 "(64)"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_fault(case: str, tmp_path: Path) -> None:
    old, new, text = FAULTS[case]
    assert old in CHIP
    with pytest.raises(ConfigError) as caught:
        load(CHIP.replace(old, new, 1), tmp_path)
    assert str(caught.value) == f"{tmp_path / 'chip.toml'}: {text}"


def test_a_chip_without_any_engine(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="engines: needs a table for at least one engine"):
        load(PATENT.replace(TABLES, "[engines]\n"), tmp_path)


def test_the_command_line_ends_with_status_2(tmp_path: Path) -> None:
    """`refused` holds that the status is 2 and the message one line."""
    load(CHIP, tmp_path)
    run = tmp_path / "r.toml"
    run.write_text('chip = "./chip.toml"\n[workload]\nop = "transpose"\nshape = "f32[4,4]"\n')
    found = refused("run", str(run), "--set", "chip.engines.vector.does=[]")
    assert f"[engines.vector] does: needs at least one of {WORDS}" in found
    found = refused("run", str(run), "--set", "chip.activation.latency_cycles=2")
    assert "activation: stands beside the table engines" in found
    found = refused("run", str(run), "--set", "compile.drain_engine=activation")
    assert "compile.drain_engine: needs one of vector, scalar, engines of ideal-4x4 " in found
    assert "that copy from the result buffer to the state buffer, found activation" in found


@pytest.mark.parametrize("seed", range(40))
def test_a_chip_prints_back_as_it_was(seed: int, tmp_path: Path) -> None:
    chip = random_chip(Random(seed), engines=seed % 4 > 0)
    text = to_toml(chip)
    assert load(text, tmp_path) == chip
    assert ("[engines." in text) == (seed % 4 > 0) == ("[activation]" not in text)
