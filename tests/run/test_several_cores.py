"""Does it run? Chips and programs of several cores, from files to summaries and refusals."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from pyarrow.parquet import read_table

from support.command_line import run_command
from support.cores_by_seed import case
from systolic import run
from systolic.config import load_chip
from systolic.config.chip_file import any_chip_of_tables
from systolic.errors import SystolicError
from systolic.hw.spec import MultiCoreChip
from systolic.isa import decode, encode, format_text, load_module, parse_text
from systolic.machine.simulate_chip import simulate_chip
from systolic.run.descriptors import descriptors
from systolic.run.explanation import explain
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS
from systolic.trace.words import KINDS

PROGRAMS = CONFIGS / "programs"
SEVERAL = ("exchange", "ring_of_four", "two_programs")
PAIR = """
name = "pair"
[[cores]]
count = 2
core = "ideal_4x4"
[[controllers]]
dram = "ideal_4x4"
"""
WIRES = '[interconnect]\nkind = "crossbar"\nbytes_per_cycle = 16\n'
BANKED = '[[controllers]]\ndram = "hbm3_128x128"'
TILE = "state_buffer[0:4]+0 f32 (1x4)"


@pytest.mark.parametrize("name", SEVERAL)
def test_both_forms_of_shipped_programs_come_back(name: str) -> None:
    module = load_module(PROGRAMS / f"{name}.txt")
    assert parse_text(format_text(module)) == module
    assert decode(encode(module)) == module


@pytest.mark.parametrize("engine", ["event", "register"])
def test_exchange_adds_both_tiles_in_the_cycles_worked_out_by_hand(engine: str) -> None:
    a, b = np.arange(16, dtype=np.float32).reshape(4, 4), np.full((4, 4), 10, np.float32)
    found = run(PROGRAMS / "exchange.txt", inputs={"a": a, "b": b}, engine=engine)
    assert found.cycles == 602 + 4 * (7 + 1) + 1 + 4 * 2 + 1  # latency, rows, post, reads, write
    for name in ("sum0", "sum1"):
        assert (found.outputs[name] == a + b).all()
    traffic = {"sent_bytes": 128, "received_bytes": 128, "written_bytes": 128}
    assert found.summary["traffic"] == traffic
    assert all(sum(each.values()) == found.cycles for each in found.summary["cores"].values())


def test_ring_of_four_is_an_all_reduce_in_the_order_of_the_ring() -> None:
    rng = np.random.default_rng(1)
    parts = {f"part{n}": rng.normal(size=(128, 256)).astype(np.float32) for n in range(4)}
    found = run(PROGRAMS / "ring_of_four.txt", inputs=parts)
    ring, want = (0, 1, 3, 2), np.empty((128, 256), np.float32)
    for chunk in range(4):
        columns = slice(64 * chunk, 64 * chunk + 64)
        total = parts[f"part{ring[chunk]}"][:, columns]
        for step in range(1, 4):
            total = total + parts[f"part{ring[(chunk + step) % 4]}"][:, columns]
        want[:, columns] = total
    for n in range(4):
        assert (found.outputs[f"total{n}"] == want).all()


def test_two_programs_slow_each_other_down_and_the_processor_tells_the_host() -> None:
    both = run(PROGRAMS / "two_programs.txt")
    assert len(both.trace.notifications) == 1
    text = (PROGRAMS / "two_programs.txt").read_text("utf-8").replace("s0>=2", "s0>=1")
    alone = {}
    for core, other in ((0, 1), (1, 0)):
        lines = text.replace(f"start core{other}\n", "").split(f"\ncore {other}\n")
        rest = lines[1].split("\ncore ")[1:]
        module = parse_text(lines[0] + "".join(f"\ncore {each}" for each in rest))
        alone[core] = _end(run(module, check=False), core)
    assert _end(both, 0) >= alone[0]
    assert _end(both, 1) >= alone[1]
    assert _end(both, 0) + _end(both, 1) > alone[0] + alone[1]


def _end(result: object, core: int) -> int:
    times = result.trace.times  # type: ignore[attr-defined]
    return max(each.done for each in times if each.unit.startswith(f"core{core}."))


@pytest.mark.parametrize("name", ["trainium1", "trainium2", "quad_128x128", "mixed_cores"])
def test_shipped_chips_of_several_cores(name: str) -> None:
    chip = load_chip(CONFIGS / "chips" / f"{name}.toml")
    assert isinstance(chip, MultiCoreChip)
    assert chip.core_count == {"trainium1": 2, "trainium2": 8, "quad_128x128": 4}.get(name, 3)


def test_a_program_of_one_core_runs_on_the_first_of_several(tmp_path: Path) -> None:
    alone = run(PROGRAMS / "transpose.txt", "ideal_4x4")
    beside = run(PROGRAMS / "transpose.txt", "pair_4x4")
    assert beside.cycles == alone.cycles
    assert beside.trace.labels["core0.pe_array"] == tuple(
        each._replace(label=each.label.replace("for ", "for core0.")) for each in
        alone.trace.labels["pe_array"]
    )  # fmt: skip


def test_exports_and_views_name_the_cores(tmp_path: Path) -> None:
    program = str(PROGRAMS / "exchange.txt")
    file = tmp_path / "x.json"
    assert run_command("export", "perfetto", program, "--out", str(file))[0] == 0
    events = json.loads(file.read_text("utf-8"))["traceEvents"]
    groups = {each["args"]["name"].split()[0] for each in events if each["name"] == "process_name"}
    assert {"core0", "core1"} <= groups
    for view in ("system", "links"):
        picture = tmp_path / f"{view}.svg"
        assert run_command("plot", view, program, "--out", str(picture))[0] == 0
        assert picture.stat().st_size > 1000
    status, out, _ = run_command("explain", program)
    assert status == 0
    assert "moving bytes over" in out


def test_waveforms_and_tables_name_the_cores(tmp_path: Path) -> None:
    program = str(PROGRAMS / "two_programs.txt")
    file = tmp_path / "x.vcd"
    assert run_command("export", "vcd", program, "--out", str(file))[0] == 0
    depth, scopes = list[str](), set[str]()
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("$scope"):
            depth.append(line.split()[2])
            scopes.add(".".join(depth))
        elif line.startswith("$upscope"):
            depth.pop()
    own = ("pe_array", "dma0", "semaphores", "pe_rows")
    assert {f"systolic.core{n}.{name}" for n in range(3) for name in own} <= scopes
    assert "systolic.processor0.commands" in scopes
    table = tmp_path / "x.parquet"
    assert run_command("export", "parquet", program, "--out", str(table))[0] == 0
    rows = read_table(table).to_pylist()
    of_units = {(row["unit"].split(".")[0], row["core"]) for row in rows if row["unit"]}
    assert of_units >= {("core0", "core0"), ("processor0", "processor0")}
    assert all(name == core for name, core in of_units)


def test_descriptors_and_words_name_the_cores() -> None:
    """By hand: four rows of 16 bytes, each 8 cycles, behind a latency of 602."""
    tiles = {"a": np.ones((4, 4), np.float32), "b": np.zeros((4, 4), np.float32)}
    found = run(PROGRAMS / "exchange.txt", inputs=tiles, kinds=KINDS)
    moved = [each for each in descriptors(found) if each.unit == "core1.dma0"]
    assert [(each.first, each.last, each.buffer) for each in moved] == [
        (602 + 8 * row, 609 + 8 * row, f"core{core}.state_buffer")
        for row in range(4)
        for core in (1, 0)
    ]
    lines = list(found.trace.words.of("write").csv(found.trace.periods))
    assert "609,core1.dma0,core0.state_buffer,0,16,0" in lines


def test_both_engines_keep_the_grid_of_each_core() -> None:
    grids = []
    for engine in ("event", "register"):
        chip, module, images = case(3)
        found = simulate_chip(chip, module, images, engine=engine, grid=True)  # type: ignore[arg-type]
        units = [found.joint.units[each.instruction] for each in found.trace.grid.matmuls]
        assert units
        assert all(unit.endswith(".pe_array") for unit in units)
        grids.append([(each.instruction, *each.injections) for each in found.trace.grid.matmuls])
    assert grids[0] == grids[1]


@pytest.mark.parametrize("view", ["banks", "memory", "dram", "utilisation"])
def test_views_of_a_core_show_that_core(view: str, tmp_path: Path) -> None:
    program, picture = str(PROGRAMS / "two_programs.txt"), tmp_path / "x.svg"
    assert run_command("plot", view, program, "--core", "core0", "--out", str(picture))[0] == 0
    assert "core0 of mixed-cores" in picture.read_text("utf-8")
    status, _, err = run_command("plot", view, program, "--core", "core7", "--out", str(picture))
    assert (status, err) == (
        2, "systolic: error: --core: no core7 (there are: core0, core1, core2)\n"
    )  # fmt: skip


def test_a_core_seen_alone_has_its_own_accesses_and_those_of_others() -> None:
    """Bank 0 of core 1 is read by its own copy, bank 1 written by that of core 0."""
    tiles = {"a": np.ones((4, 4), np.float32), "b": np.zeros((4, 4), np.float32)}
    seen = plotted(run(PROGRAMS / "exchange.txt", inputs=tiles), "core1")
    ends = {(t.is_write, t.bytes.first) for t in seen.touches() if t.buffer == "state_buffer"}
    assert ends >= {(False, 0), (True, 64)}
    assert {each.unit for each in seen.trace.times} >= {"dma0", "core0.dma0"}
    own = {"pe_array", "activation", "pooling", "dma0", "dma1"}
    assert set(seen.trace.labels) == own


def quad_text() -> str:
    """Return a program in which each core reads a block, hands it on, and writes what it got."""
    lines = ["systolic program 2", 'chip "quad_128x128"']
    for core in range(4):
        block, after = 4096 * core, (core + 1) % 4
        source, target = (f"dram[0:1]+{at} f32 (1x1024)" for at in (block, 65536 + block))
        here, there = (f"state_buffer[0:16]+{at} f32 (1x64)" for at in (0, 1024))
        lines += [
            f"core {core}",
            'semaphore s0 "here"',
            'semaphore s1 "there"',
            f"input x{core} (16, 64) = {source}",
            f"output y{core} (16, 64) = {target}",
            f"dma q0 source={source} target={here}  post s0",
            f"dma q1 source={here} target=core{after}.{there}  wait s0>=1  post core{after}.s1",
            f"dma q2 source={there} target={target}  wait s1>=1",
        ]
    return "\n".join(lines) + "\n"


def test_four_cores_share_hbm3_in_two_controllers(tmp_path: Path) -> None:
    program, rng = tmp_path / "quad.txt", np.random.default_rng(2)
    program.write_text(quad_text(), encoding="utf-8")
    blocks = {f"x{n}": rng.normal(size=(16, 64)).astype(np.float32) for n in range(4)}
    found = [run(program, inputs=blocks, engine=engine) for engine in ("event", "register")]
    for n in range(4):
        assert (found[0].outputs[f"y{(n + 1) % 4}"] == blocks[f"x{n}"]).all()
    assert found[0].cycles == found[1].cycles
    dram = found[0].summary["transfers"]["dram"]
    assert dram == found[1].summary["transfers"]["dram"]
    assert dram["bursts"] == 2 * 4 * 4096 // 128
    assert len(dram["channels"]) == 32
    status, out, _ = run_command("run", str(program), "--values", "none", "--out", str(tmp_path))
    assert status == 0
    assert "32 channels, busy" in out


def test_what_if_takes_what_a_chip_with_other_keys_takes() -> None:
    """Held against chips that a file describes; the commands of the processor are its own."""
    found = run(PROGRAMS / "two_programs.txt")
    outlooks = {each.change.what: each for each in explain(found).outlooks}
    text = (CONFIGS / "chips" / "mixed_cores.toml").read_text("utf-8")
    for what, key, edit in (
        ("links twice as wide", "bytes_per_cycle", lambda value: 2 * value),
        ("hops 0 cycles", "hop_cycles", lambda value: 0),
    ):
        tables = tomllib.loads(text)
        tables["interconnect"][key] = edit(tables["interconnect"][key])
        if what.startswith("hops"):
            tables["interconnect"]["post_cycles"] = 0
        chip = any_chip_of_tables(tables, CONFIGS / "chips" / "mixed_cores.toml", "changed")
        module = load_module(PROGRAMS / "two_programs.txt")
        assert outlooks[what].cycles == run(module, chip).cycles
        assert not outlooks[what].already
    assert outlooks["DMA latency 0"].cycles < found.cycles
    assert outlooks["semaphores 1 cycle"].already


def chip_file(folder: Path, text: str) -> Path:
    file = folder / "chip.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("chip", "body", "said"),
    [
        (
            WIRES,
            f"dma q0 source={TILE} target={TILE}  post core7.s0",
            "core7 is not there: pair",
        ),
        ("", f"dma q0 source={TILE} target=core1.{TILE}", "has no way from core0 to core1"),
        (WIRES, f"dma q0 source=core4.{TILE} target={TILE}", "core4 is not there"),
        (WIRES, f"core 2\ndma q0 source={TILE} target={TILE}", "is for 3 cores"),
        (WIRES, "core 0", "core0 has 2 programs called"),
    ],
)
def test_programs_that_are_refused(tmp_path: Path, chip: str, body: str, said: str) -> None:
    file = chip_file(tmp_path, PAIR + chip)
    program = tmp_path / "p.txt"
    program.write_text(f"systolic program 2\ncore 0\n{body}\n", encoding="utf-8")
    status, _, err = run_command("run", str(program), "--chip", str(file), "--values", "none")
    assert status == 2
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PAIR + WIRES.replace("16", "3"), "is less than the 4 DMA queues"),
        (PAIR.replace('dram = "ideal_4x4"', 'dram = "ideal_4x4"\nrange = [64, 128]'), "have a gap"),
        (
            PAIR.replace('dram = "ideal_4x4"', 'dram = "ideal_4x4"\nrange = [0, 128]')
            + '[[controllers]]\ndram = "ideal_4x4"\nrange = [64, 256]\n',
            "have an overlap",
        ),
        (PAIR.replace('[[controllers]]\ndram = "ideal_4x4"\n', ""), "there are 2"),
        (PAIR + WIRES.replace("crossbar", "mesh"), "a mesh needs its columns and its rows"),
        (PAIR + "[[processors]]\nfeeds = [5]\n", "no core 5"),
        (
            PAIR.replace('[[controllers]]\ndram = "ideal_4x4"', BANKED).replace(
                "count = 2", 'count = 1\ncore = "hbm3_128x128"\n[[cores]]\ncount = 1'
            ),
            "which have clocks of 1000 and 1600 MHz",
        ),
        (
            PAIR.replace(
                '"ideal_4x4"\n[[controllers]]\ndram = "ideal_4x4"', f'"neuroncore_v2"\n{BANKED}'
            ),
            "core0 dma.partitions_per_engine, whose copies have no order of bursts",
        ),
        (
            PAIR.replace(
                'dram = "ideal_4x4"',
                'dram = "hbm3_128x128"\nrange = [0, 65536]\n'
                '[[controllers]]\ndram = "ddr4_128x128"\nrange = [65536, 131072]',
            ),
            "is not that of controller0; needed the same but for latency_cycles",
        ),
    ],
)
def test_chips_that_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SystolicError, match=said) as error:
        load_chip(chip_file(tmp_path, text))
    assert "\n" not in str(error.value)


MANAGED = PAIR + "[[processors]]\nfeeds = [0]\ndma = { queues = 1, bytes_per_cycle = 4 }\n"
BROUGHT = MANAGED.replace('name = "pair"', 'name = "pair"\ncode = "dram"')
STORE = "[fetch]\ncode_bytes = 64\n"


@pytest.mark.parametrize(
    ("chip", "body", "said"),
    [
        (MANAGED, "wait s0>=1\npost processor0.s0\nstart core0", "waits for itself"),
        (MANAGED, "start core1", "processor0 does not look after core1"),
        (MANAGED, "post s0", "core0: its program core0 is never started"),
        (MANAGED, "start core0 other", 'core0 has no program "other"'),
        (BROUGHT + STORE, "start core0", "core0.code 64 (fetch.code_bytes)"),
        (BROUGHT + STORE.replace("64", "4096"), "start core0", "copies before it bring 0"),
    ],
)
def test_processors_that_are_refused(tmp_path: Path, chip: str, body: str, said: str) -> None:
    file, program = chip_file(tmp_path, chip), tmp_path / "p.txt"
    head = f'core 0\ndma q0 source={TILE} target={TILE}\nprocessor 0\nsemaphore s0 "a"\n'
    program.write_text(f"systolic program 2\n{head}{body}\n", encoding="utf-8")
    status, _, err = run_command("run", str(program), "--chip", str(file), "--values", "none")
    assert status == 2
    assert said in err


RACE = f"""systolic program 2
core 0
input a (4, 4) = {TILE}
dma q0 source={TILE} target=core1.state_buffer[0:4]+64 f32 (1x4)
core 1
input b (4, 4) = {TILE}
copy pooling source=state_buffer[0:4]+64 f32 (1x4) target=state_buffer[0:4]+128 f32 (1x4)
"""


def test_the_checker_sees_races_and_deadlocks_between_cores(tmp_path: Path) -> None:
    file, program = chip_file(tmp_path, PAIR + WIRES), tmp_path / "p.txt"
    program.write_text(RACE, encoding="utf-8")
    status, out, _ = run_command("lint", str(program), "--chip", str(file))
    assert status == 1
    assert "read-after-write: core0: instruction 0 (DmaCopy) and core1: instruction 0" in out
    ordered = RACE.replace(
        "f32 (1x4)\ncore 1", 'f32 (1x4)  post core1.s0\ncore 1\nsemaphore s0 "a"'
    )
    program.write_text(ordered.rstrip() + "  wait s0>=1\n", encoding="utf-8")
    assert run_command("lint", str(program), "--chip", str(file))[0] == 0
    program.write_text(ordered.rstrip() + "  wait s0>=2\n", encoding="utf-8")
    status, out, _ = run_command("lint", str(program), "--chip", str(file))
    assert status == 1
    assert "never-posted" in out
