"""Is every fault in a chip or run file one clear line? The text of an error is its contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from systolic.config import expand, load_chip, load_run
from systolic.errors import ConfigError
from systolic.layout.element_types import ELEMENT_TYPES

CHIPS = Path(__file__).resolve().parents[2] / "configs" / "chips"
CHIP = (CHIPS / "ideal_4x4.toml").read_text(encoding="utf-8")
RUN = """\
chip = "ideal_4x4"

[workload]
op = "transpose"
shape = "f32[4,4]"

[compile]
"""
KNOWN_CHIPS = ", ".join(sorted(path.stem for path in CHIPS.glob("*.toml")))
ARRAY_KEYS = (
    "known: cell, clock, cols, cycles_per_vector, dispatch, dispatch_cycles, double_row, "
    "entry_cycles, fast_load, fused_multiply_add, hop, min_interval_cycles, min_vectors, "
    "moving_max, mx, pass_through, passes, rows, tile_sizes, warm_up_cycles, warm_up_factor, "
    "weight_buffer, weight_path"
)
RUN_KEYS = "known: chip, compile, description, engine, name, sweep, workload"
COMPILE_KEYS = (
    "known: block, drain, drain_engine, effort, group, identity, operations, outer, stationary, "
    "structural_zeros, tile_columns, via"
)
CHIP_FAULTS = [
    # (what is replaced, by what, the error after "chip.toml: ")
    ("rows = 4", "rows = 0", "[pe_array] rows: needs an integer >= 1, found 0"),
    ("rows = 4", "rows = 4.0", "[pe_array] rows: needs an integer >= 1, found 4.0"),
    ("rows = 4", 'rows = "4"', '[pe_array] rows: needs an integer >= 1, found "4"'),
    ("rows = 4", "rows = true", "[pe_array] rows: needs an integer >= 1, found true"),
    ("rows = 4", "rows = 5000", "[pe_array] rows: needs an integer <= 4096, found 5000"),
    ("rows = 4", "", "[pe_array] rows: is missing; needs an integer >= 1"),
    (
        "rows = 4",
        "rowz = 4",
        f'[pe_array] unknown key "rowz" ({ARRAY_KEYS}); perhaps "rows" was meant '
        "(also missing: [pe_array] rows)",
    ),
    (
        "[pe_array]",
        "[pe_arry]",
        'unknown key "pe_arry" (known: access, activation, clock, description, dma, dram, engines, '
        "exclusions, fetch, handoff_cycles, metrics, name, pe_array, pooling, port_priority, "
        "provenance, result_buffer, semaphore_cycles, state_buffer); "
        'perhaps "pe_array" was meant (also missing: pe_array)',
    ),
    (
        "[dram]",
        "[dram]\nbanana = 1",
        '[dram] unknown key "banana" (known: bytes_per_cycle, latency_cycles, organisation, '
        "size_bytes)",
    ),
    (
        'weight_path = "left"',
        'weight_path = "lfet"',
        '[pe_array] weight_path: needs one of "left", "top", found "lfet"; '
        'perhaps "left" was meant',
    ),
    ("hop = [1, 1]", "hop = 1", "[pe_array] hop: needs a list of 2 values, found 1"),
    ("hop = [1, 1]", "hop = [1]", "[pe_array] hop: entry 2 is missing; needs an integer >= 1"),
    (
        "hop = [1, 1]",
        "hop = [1, 0]",
        "[pe_array] hop: entry 2 needs an integer >= 1, found 0",
    ),
    (
        "hop = [1, 1]",
        "hop = [1, 1, 1]",
        "[pe_array] hop: needs a list of 2 values, found [1, 1, 1]",
    ),
    (
        "f32 = 1",
        "f33 = 1",
        '[pe_array] cycles_per_vector: unknown data type "f33" (known: f32, bf16, f16, f8e4m3fn, '
        "f8e5m2, s8, u8, s32)",
    ),
    ("f32 = 1", "f32 = 0", "[pe_array.cycles_per_vector] f32: needs an integer >= 1, found 0"),
    (
        "cell = [1, 1]",
        "cell = [3, 1]",
        "[pe_array] rows (4) must be a multiple of its cell size (3)",
    ),
    (
        "banks = 8",
        "banks = 7",
        "[state_buffer] bytes_per_partition (16384) must be a multiple of banks (7)",
    ),
    (
        "bank_bytes = 2048",
        "bank_bytes = 2047",
        "[result_buffer] bank_bytes (2047) must be a multiple of 4",
    ),
    (
        "independent_lanes = true",
        "independent_lanes = 1",
        "[activation] independent_lanes: needs true or false, found 1",
    ),
    ("core = 1000", "core = 0", "[clock] core: needs an integer >= 1, found 0"),
    (
        "core = 1000",
        "core = 1979-05-27",
        "[clock] core: needs an integer >= 1, found 1979-05-27",
    ),
    ("core = 1000", "", "clock: needs at least one clock"),
    ("[dma]", '[dma]\nclock = "x"', 'dma.clock: no clock "x" (there are: core)'),
    (
        "queues = 2",
        "queues = 2\nengines = 3",
        "[dma] queues (2) must be a multiple of engines (3)",
    ),
    (
        "queues = 2",
        "queues = 2\noutstanding = 0",
        "[dma] outstanding: needs an integer >= 1, found 0",
    ),
    (
        "queues = 2",
        'queues = 2\ndescriptor_cost = "least"',
        '[dma] descriptor_cost: needs one of "sum", "max", found "least"',
    ),
    (
        "queues = 2",
        "queues = 2\npartitions_per_cycle = 0",
        "[dma] partitions_per_cycle: needs an integer >= 1, found 0",
    ),
    (
        "queues = 2",
        "queues = 2\npartitions_per_engine = 0",
        "[dma] partitions_per_engine: needs an integer >= 1, found 0",
    ),
    (
        "queues = 2",
        "queues = 2\npartitions_per_engine = 1",
        "[dma] partitions_per_engine needs engines, which share out each copy",
    ),
    (
        "queues = 2",
        "queues = 2\nengines = 2\npartitions_per_engine = 1\npartitions_per_cycle = 2",
        "[dma] partitions_per_cycle stands beside partitions_per_engine, by which each engine "
        "moves one descriptor at a time",
    ),
    (
        "queues = 2",
        'queues = 2\nengines = 2\nposts = "each_engine"',
        '[dma] posts = "each_engine" needs partitions_per_engine, by which all engines have a part '
        "of each copy",
    ),
    (
        "queues = 2",
        "queues = 2\nengines = 2\npartitions_per_engine = 2",
        "dma.partitions_per_engine: the engines' descriptors lie in partitions apart from one "
        'another, which needs state_buffer.port_scope = "bank"',
    ),
    ("queues = 2", "queues = 2\nengines = 0", "[dma] engines: needs an integer >= 1, found 0"),
    (
        "bytes_per_cycle = 272",
        "bytes_per_cycle = 1\nengines = 1",
        "[dma] bytes_per_cycle (1) is less than the queues of an engine (2): each must get a byte "
        "in every cycle",
    ),
    ('name = "ideal-4x4"', "name = 4", "name: needs text, found 4"),
    (
        "semaphore_cycles = 1",
        'port_priority = ["dma", "dmb"]',
        "port_priority: must name each of moving, weights, activation, pooling, dma once, "
        'found "dmb"; perhaps "dma" was meant',
    ),
    (
        "semaphore_cycles = 1",
        'port_priority = ["dma"]',
        "port_priority: must name each of moving, weights, activation, pooling, dma once",
    ),
    (
        'port_scope = "partition"',
        'port_scope = "partition"\nport_bytes = 3',
        "state_buffer.port_bytes (3) is narrower than an element of f32 (4 bytes)",
    ),
    (
        'port_scope = "partition"',
        'port_scope = "partitions"',
        '[state_buffer] port_scope: needs one of "bank", "partition", found "partitions"; '
        'perhaps "partition" was meant',
    ),
]

PORT_FAULTS = [
    (
        "pe_array.fast_load=17",
        "pe_array.fast_load (17) could never be reached: 17 of the smallest elements (1 bytes) "
        "are more than state_buffer.port_bytes (16)",
    ),
    (
        "pooling.elements_per_cycle=20",
        "pooling.elements_per_cycle (20) could never be reached: 20 of the smallest elements "
        "(1 bytes) are more than state_buffer.port_bytes (16)",
    ),
]


@pytest.mark.parametrize(("setting", "text"), PORT_FAULTS)
def test_a_rate_that_no_type_could_reach(setting: str, text: str, tmp_path: Path) -> None:
    settings = [f"chip.{setting}", "chip.state_buffer.port_bytes=16"]
    with pytest.raises(ConfigError) as caught:
        load_run(run_file(tmp_path), settings)
    assert str(caught.value).endswith(f": {text}")
    load_run(run_file(tmp_path), settings[:1])


@pytest.mark.parametrize(("old", "new", "text"), CHIP_FAULTS)
def test_chip_fault(old: str, new: str, text: str, tmp_path: Path) -> None:
    assert old in CHIP
    path = tmp_path / "chip.toml"
    path.write_text(CHIP.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_chip(path)
    assert str(caught.value) == f"{path}: {text}"


RUN_FAULTS = [
    ('"ideal_4x4"', '"ideal_4x5"',
     f'chip: no chip "ideal_4x5" (known: {KNOWN_CHIPS}); perhaps "ideal_4x4" was meant'),
    ('chip = "ideal_4x4"', "", "chip: is missing; needs text"),
    ("chip =", 'name = "../x"\nchip =',
     "name: needs letters, digits and \" ._+-\" only, found '../x'"),
    ("chip =", 'engine = "evnt"\nchip =',
     'engine: needs one of "event", "register", found "evnt"; perhaps "event" was meant'),
    ('"transpose"', '"matmull"',
     '[workload] op: unknown operation "matmull"; perhaps "matmul" was meant'),
    ('"transpose"', '"matmul"', '[workload] shape: op = "matmul" has no such key'),
    ('shape = "f32[4,4]"', "", "[workload] shape: is missing; needs text"),
    ('shape = "f32[4,4]"', 'lhs = "f32[4,4]"', '[workload] lhs: op = "transpose" has no such key'),
    ('op = "transpose"\nshape = "f32[4,4]"', 'op = "matmul"\nlhs = "f32[4,5]"\nout = "f32[4,4]"',
     "[workload] rhs: is missing; needs text"),
    ('op = "transpose"\nshape = "f32[4,4]"',
     'op = "matmul"\nlhs = "f32[4,5]"\nrhs = "f32[4,6]"\nout = "f32[4,6]"',
     '[workload] op: operation "matmul": f32[4,5] and f32[4,6] cannot be multiplied: lhs '
     "[.., M, K] and rhs [.., K, N] need the same K, and leading dimensions that are "
     "equal or 1 from the last"),
    ("f32[4,4]", "f32[4,4",
     "[workload] shape: 'f32[4,4', column 8: "
     'expected "]" or a comma after a dimension, found the end'),
    ("f32[4,4]", "q8[4,4]",
     "[workload] shape: 'q8[4,4]', column 1: unknown element type \"q8\" "
     f"(known: {', '.join(ELEMENT_TYPES)})"),
    ("f32[4,4]", "f32[4]",
     "[workload] shape: a transpose needs at least 2 dimensions, f32[4] has 1"),
    ("f32[4,4]", "f32[0,4]",
     "[workload] shape: f32[0,4] has no elements: there is nothing to transpose"),
    ("f32[4,4]", "f32[4,4,4]",
     "[workload] shape: a permutation is needed: f32[4,4,4] has 3 dimensions "
     "(only a matrix has just one other order)"),
    ("[compile]", 'out = "f32[4,5]"',
     '[workload] out: operation "transpose": f32[4,4] gives f32[4,4], but out is f32[4,5]'),
    ("[compile]", 'out = "f32[4,"',
     "[workload] out: 'f32[4,', column 7: expected a dimension (an integer), found the end"),
    ("[compile]", "permutation = [0, 0]",
     "[workload] permutation: each axis from 0 to 1 must be named once, found [0, 0]"),
    ("[compile]", "permutation = [0, -1]",
     "[workload] permutation: entry 2 needs an integer >= 0, found -1"),
    ("[compile]", 'permutation = "10"', '[workload] permutation: needs a list, found "10"'),
    ("[compile]", 'home = "drum"',
     '[workload] home: needs one of "state_buffer", "dram", found "drum"; '
     'perhaps "dram" was meant'),
    ("[compile]", 'data = "x"',
     '[workload] data: needs "arange", "random" or a .npy, .csv, .npz, .safetensors, .hlo, .mlir '
     "or .onnx file, found 'x'"),
    ("[compile]", "seed = 1", "[workload] seed: only data = \"random\" has one, not 'arange'"),
    ("[compile]", 'data = "random"\nseed = -1',
     "[workload] seed: needs an integer >= 0, found -1"),
    ("[compile]", '[compile]\ndrain = "rows"',
     '[compile] drain: needs one of "row", "partition", "block", found "rows"; '
     'perhaps "row" was meant'),
    ("[compile]", "[compile]\nblock = [0, 4]",
     "[compile] block: entry 1 needs an integer >= 1, found 0"),
    ("[compile]", "[compiler]",
     f'unknown key "compiler" ({RUN_KEYS}); perhaps "compile" was meant'),
    ("[compile]", "[[sweep]]\nvary = {}",
     "[sweep #1] name: is missing; needs text (also wrong: [sweep #1] vary)"),
    ("[compile]", '[[sweep]]\nname = "a"\nvary = {}',
     "[sweep #1] vary: needs a table with 1 or more keys, found {}"),
    ("[compile]", '[[sweep]]\nname = "a"\nvary = {"a" = []}',
     "[sweep #1.vary] a: needs a list of 1 or more values, found []"),
    ("[compile]", '[[sweep]]\nname = "a"\nvari = {"a" = [1]}',
     '[sweep #1] unknown key "vari" (known: description, method, name, objectives, '
     'points, program, seed, vary, zip); perhaps "vary" was '
     "meant (also missing: [sweep #1] vary)"),
]  # fmt: skip


def run_file(folder: Path, text: str = RUN) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("old", "new", "text"), RUN_FAULTS)
def test_run_fault(old: str, new: str, text: str, tmp_path: Path) -> None:
    assert old in RUN
    path = run_file(tmp_path, RUN.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_run(path)
    assert str(caught.value) == f"{path}: {text}"


OVERRIDE_FAULTS = [
    (
        "compile.drian=row",
        f'[compile] unknown key "drian" ({COMPILE_KEYS}); perhaps "drain" was meant',
    ),
    (
        "chip.pe_array.rowz=5",
        f'[pe_array] unknown key "rowz" ({ARRAY_KEYS}); perhaps "rows" was meant',
    ),
    ("chip.pe_array.rows=0", "[pe_array] rows: needs an integer >= 1, found 0"),
    ("compile=3", "compile: needs a table, found 3"),
    ("a", "needs the form key=VALUE"),
    ("=1", '"" is not a dotted key such as workload.shape'),
    ("a..b=1", '"a..b" is not a dotted key such as workload.shape'),
    (
        "workload.shape=f32[3,",
        "[workload] shape: 'f32[3,', column 7: expected a dimension (an integer), found the end",
    ),
    ("chip=no.toml", "chip: no.toml: no such file"),
    (
        "chip=patent_128x6",
        f'chip: no chip "patent_128x6" (known: {KNOWN_CHIPS}); perhaps "patent_128x64" was meant',
    ),
    ("name=3", "name: needs text, found 3"),
    ("sweep=1", "sweep: needs a list, found 1"),
    ("chip.name.x=1", "name is a value, not a table"),
]


@pytest.mark.parametrize(("override", "text"), OVERRIDE_FAULTS)
def test_override_fault_names_the_override(override: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_run(run_file(tmp_path), [override])
    assert str(caught.value) == f"override {override}: {text}"


def test_of_two_overrides_the_one_that_won_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^override compile\.drain=b: \[compile\] drain: needs"):
        load_run(run_file(tmp_path), ["compile.drain=a", "compile.drain=b"])


def test_override_that_is_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^override name=\\udcff: is not UTF-8 text$"):
        load_run(run_file(tmp_path), ["name=\udcff"])


def test_fault_between_overridden_and_written_values_names_both(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_run(run_file(tmp_path), ["chip.state_buffer.port_bytes=2"])
    assert str(caught.value) == (
        f"{CHIPS / 'ideal_4x4.toml'} with override chip.state_buffer.port_bytes=2: "
        "state_buffer.port_bytes (2) is narrower than an element of f32 (4 bytes)"
    )


SWEEP_FAULTS = [
    ('"compile.drian" = ["row"]',
     f'sweep "a": compile.drian=row: [compile] unknown key "drian" ({COMPILE_KEYS}); '
     'perhaps "drain" was meant'),
    ('"chip.dram.size_bytes" = [0]',
     'sweep "a": chip.dram.size_bytes=0: [dram] size_bytes: needs an integer >= 1, found 0'),
    ('"sweep" = [1]', 'sweep "a": cannot vary "sweep"'),
    ('"a..b" = [1]', 'sweep "a": "a..b" is not a dotted key such as workload.shape'),
]  # fmt: skip


@pytest.mark.parametrize(("vary", "text"), SWEEP_FAULTS)
def test_sweep_fault(vary: str, text: str, tmp_path: Path) -> None:
    path = run_file(tmp_path, f'{RUN}[[sweep]]\nname = "a"\n[sweep.vary]\n{vary}\n')
    with pytest.raises(ConfigError) as caught:
        _ = [point.config for point in expand(load_run(path))]
    assert str(caught.value) == f"{path}: {text}"


def test_sweep_of_too_many_points(tmp_path: Path) -> None:
    many = list(range(1, 3200))
    vary = f'"chip.dram.latency_cycles" = {many}\n"chip.dram.bytes_per_cycle" = {many}'
    path = run_file(tmp_path, f'{RUN}[[sweep]]\nname = "a"\n[sweep.vary]\n{vary}\n')
    with pytest.raises(ConfigError, match=r": \[sweep\] has 10233601 points, more than 10000000; "):
        _ = [point.config for point in expand(load_run(path))]


def test_too_large_for_this_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("systolic.workload.data.host_memory.available_bytes", lambda: 2 << 20)
    path = run_file(tmp_path, RUN.replace("f32[4,4]", "f32[1024,1024]"))
    with pytest.raises(ConfigError) as caught:
        load_run(path)
    assert str(caught.value) == (
        f"{path}: [workload] shape: f32[1024,1024]{{1,0}} needs 16.0 MiB in this computer's memory "
        "(4 copies), which has 2.0 MiB free"
    )


def test_toml_syntax_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("a = 1\nb = \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"x\.toml: is not valid TOML: Invalid value .*line 2"):
        load_chip(tmp_path / "x.toml")


class TestFiles:
    """Files that cannot be read at all."""

    def test_missing(self, tmp_path: Path) -> None:
        self.refused(tmp_path / "no.toml", "no such file")

    def test_directory(self, tmp_path: Path) -> None:
        self.refused(tmp_path, "is a directory, not a file")

    def test_device(self) -> None:
        self.refused(Path("/dev/null"), "is a device, not a file")

    def test_below_a_file(self, tmp_path: Path) -> None:
        self.refused(run_file(tmp_path) / "x", "cannot be read (Not a directory)")

    def test_unreadable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = run_file(tmp_path)

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        self.refused(path, "cannot be read (Permission denied)")

    def test_not_utf8(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_bytes(b"a = 1\n\xff")
        self.refused(path, "line 2: is not UTF-8 text")

    def test_huge(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_bytes(b"#" * (1 << 21))
        self.refused(path, "is larger than 1 MiB: not a chip or run file")

    def test_nested(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_bytes(b"a = " + b"[" * 5000)
        self.refused(path, "is nested too deeply")

    def refused(self, path: Path, text: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load_chip(path)
        assert str(caught.value) == f"{path}: {text}"
        with pytest.raises(ConfigError) as caught:
            load_run(path)
        assert str(caught.value) == f"{path}: {text}"

    def test_name_with_zero_byte(self) -> None:
        with pytest.raises(ConfigError, match=r"^a\\x00b: cannot be a file name"):
            load_chip("a\0b")
