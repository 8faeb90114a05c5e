"""Do messages list known names, suggest only near ones, and stay short enough to be read?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.command_line import refused, run_command
from systolic.errors import listed, perhaps, shortened

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
FIG3 = CONFIGS / "runs" / "transpose_fig3.toml"
HEAD = 'chip = "ideal_4x4"\n[workload]\n'
KEYS = ("chip", "compile", "description", "engine", "name", "sweep", "workload")
OPS = ("transpose", "matmul", "relayout", "reshape", "cast")
LONG = "q" * 100_000


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("nope", KEYS, ""),
        ("group", ("op", "shape", "lhs"), ""),
        ("relu", OPS, ""),
        ("x", ("w", "y"), ""),
        ("", KEYS, ""),
        (LONG, KEYS, ""),
        ("chp", KEYS, "chip"),
        ("chipp", KEYS, "chip"),
        ("cihp", KEYS, "chip"),
        ("CHIP", KEYS, "chip"),
        ("wrokload", KEYS, "workload"),
        ("transpsoe", OPS, "transpose"),
        ("trans", OPS, "transpose"),
        ("bf61", ("f32", "bf16"), "bf16"),
    ],
)
def test_near(word: str, known: tuple[str, ...], meant: str) -> None:
    assert perhaps(word, known) == (f'; perhaps "{meant}" was meant' if meant else "")


def test_lists_and_cuts() -> None:
    assert listed([]) == "none"
    assert listed("abc") == "a, b, c"
    assert listed("abcd", 3) == "a, b, c and 1 other"
    assert listed("abcde", 3) == "a, b, c and 2 others"
    assert shortened("x" * 60) == "x" * 60
    assert len(shortened(LONG)) == 60
    assert shortened("a" * 90 + "end").endswith("aend")


MORE = "[compile]\ngroup = 1\n"
CASES = {
    "not near": ("nope = 1\n" + HEAD, r'unknown key "nope" \(known: chip, .*, workload\)$'),
    "others named": (
        HEAD.replace('"ideal_4x4"', "3") + "[compile]\ndrian = 1\nblock = [0]\n",
        r'\[compile\] unknown key "drian" \(known: .*\); perhaps "drain" was meant '
        r"\(also missing: \[compile\] block #2; also wrong: chip, \[compile\] block #1\)$",
    ),
    "inf": (HEAD + "[compile]\ntile_columns = inf\n", r"an integer >= 1, found inf$"),
    "nan": (HEAD + "[compile]\ntile_columns = [1, -inf, nan]\n", r"found \[1, -inf, nan\]$"),
    "no such chip": (
        'chip = "ideal"\n[workload]\n',
        r'chip: no chip "ideal" \(known: .*ideal_4x4.*\); perhaps "ideal_4x4" was meant$',
    ),
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "drain"), "--set drain: needs the form key=VALUE"),
        (("--set", "compile=1"), "--set compile=1: compile: needs a table, found 1"),
        (("--chip", "ideal"), '--chip: chip: no chip "ideal" (known: '),
    ],
)
def test_a_value_of_the_command_line_is_named_by_its_option(
    arguments: tuple[str, ...], message: str
) -> None:
    assert refused("run", FIG3, *arguments).startswith(message)


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=CASES)
def test_message(text: str, message: str) -> None:
    Path("r.toml").write_text(text, encoding="utf-8")
    found = refused("run", "r.toml")
    assert re.search(message, found), found


def test_no_chips_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("systolic.config.chip_file.CHIPS", Path("nowhere"))
    Path("r.toml").write_text(HEAD, encoding="utf-8")
    assert '"ideal_4x4" (known: none); looked in ' in refused("run", "r.toml")


def test_a_matrix_in_a_graph_needs_no_permutation() -> None:
    graph = (
        HEAD + 'data = "random"\n[workload.tensors.x]\nshape = "f32[4,6]"\n'
        '[[workload.ops]]\nop = "transpose"\nname = "y"\ninputs = ["x"]\nout = "f32[6,4]"\n'
    )
    summaries = []
    for more in ("", "permutation = [1, 0]\n"):
        Path("r.toml").write_text(graph + more, encoding="utf-8")
        status, out, err = run_command("run", "r.toml", "--no-plots")
        assert (status, err) == (0, "")
        assert "equals numpy: yes" in out
        summary = json.loads(Path("out/r/summary.json").read_text(encoding="utf-8"))
        del summary["config"]  # which has the permutation as the run file gives it
        summaries.append(summary)
    assert summaries[0] == summaries[1]
    deeper = graph.replace("[4,6]", "[2,4,6]").replace("[6,4]", "[2,6,4]")
    Path("r.toml").write_text(deeper, encoding="utf-8")
    assert "a permutation is needed: f32[2,4,6] has 3 dimensions" in refused("run", "r.toml")


ECHOES = {
    "key": (f"{LONG} = 1\n" + HEAD, ()),
    "value": (HEAD + f'op = "{LONG}"\n', ()),
    "list": (HEAD + f"op = [{'1,' * 50_000}]\n", ()),
    "table": (HEAD + f"[{LONG}]\nx = 1\n", ()),
    "shape": (HEAD + f'op = "transpose"\nshape = "{LONG}"\n', ()),
    "layout": (HEAD + f'op = "transpose"\nshape = "f32[4,4]{{1,0:T{LONG}}}"\n', ()),
    "sizes": (HEAD + f'op = "transpose"\nshape = "f32[{"1," * 50_000}1]"\n', ()),
    "data": (HEAD + f'op = "transpose"\nshape = "f32[4,4]"\ndata = "{LONG}"\n', ()),
    "data file": (HEAD + f'op = "transpose"\nshape = "f32[4,4]"\ndata = "{LONG}.npy"\n', ()),
    "chip": (HEAD.replace("ideal_4x4", LONG), ()),
    "chip file": (HEAD.replace("ideal_4x4", f"{LONG}.toml"), ()),
    "name": (f'name = "{LONG}%"\n{HEAD}op = "transpose"\nshape = "f32[4,4]"\n', ()),
    "permutation": (
        HEAD + f'op = "transpose"\nshape = "f32[4,4]"\npermutation = [{"1," * 50_000}]\n', ()
    ),
    "tensor": (HEAD + f'[workload.tensors.{LONG}]\nshape = "f32"\n', ()),
    "operation": (
        HEAD + '[workload.tensors.x]\nshape = "f32[4,4]"\n'
        f'[[workload.ops]]\nop = "{LONG}"\nname = "{LONG}"\ninputs = ["{LONG}"]\nout = "f32[1]"\n',
        (),
    ),
    "sweep": (HEAD + f'[[sweep]]\nname = "{LONG}"\nvary = {{ "a..{LONG}" = ["{LONG}"] }}\n', ()),
    "zip": (HEAD + f'[[sweep]]\nname = "s"\nzip = [["{LONG}", "b"]]\nvary = {{ b = [1] }}\n', ()),
    "set": (HEAD, ("--set", f"{LONG}={LONG}")),
    "set nothing": (HEAD, ("--set", LONG)),
    "engine": (HEAD, ("--engine", LONG)),
    "values": (HEAD, ("--values", LONG)),
    "option": (HEAD, (f"--{LONG}",)),
    "jobs": (HEAD, ("--jobs", LONG)),
    "out": (HEAD + 'op = "transpose"\nshape = "f32[4,4]"\n', ("--no-plots", "--out", LONG)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "options"), ECHOES.values(), ids=ECHOES)
def test_what_is_echoed_is_cut(text: str, options: tuple[str, ...]) -> None:
    Path("r.toml").write_text(text, encoding="utf-8")
    assert len(refused("run", "r.toml", *options)) < 1000


PROGRAM_HEAD = 'systolic program 1\nprogram "p"\nchip "ideal_4x4"\nsemaphore s0 "done"\n'
OTHER_ECHOES = {
    "mnemonic": ("lint", f"{LONG} x"),
    "program's name": ("lint", f'program "{LONG}'),
    "access": ("lint", f"load weights={LONG}[0:4]+0 f32 (1x4)"),
    "data type": ("lint", f"load weights=state_buffer[0:4]+0 {LONG} (1x4)"),
    "pairs": ("lint", f"load weights=state_buffer[0:4]+0 f32 ({'1x4 ' * 30_000})"),
    "number": ("lint", f"load weights=state_buffer[0:{'9' * 99_999}]+0 f32 (1x4)"),
}


@pytest.mark.parametrize(("command", "line"), OTHER_ECHOES.values(), ids=OTHER_ECHOES)
def test_what_is_echoed_of_a_program_is_cut(command: str, line: str) -> None:
    Path("p.txt").write_text(PROGRAM_HEAD + line + "\n", encoding="utf-8")
    status, out, err = run_command(command, "p.txt")
    assert status in (1, 2)
    assert all(len(line) < 1000 for line in (out + err).splitlines())


ARGUMENTS = {
    "command": (LONG,),
    "layout": ("layout", LONG),
    "layout buffer": ("layout", "f32[4,4]", "--buffer", LONG),
    "layout index": ("layout", "f32[4,4]", "--index", LONG),
    "schema": ("schema", LONG),
    "trace kind": ("trace", FIG3, "--kind", LONG),
    "after": ("compile", FIG3, "--after", LONG),
    "pe": ("at", FIG3, "--cycle", "1", "--pe", LONG),
    "word": ("watch", FIG3, "--word", LONG),
    "buffer": ("watch", FIG3, "--word", f"{LONG}:0:0"),
    "address": ("watch", FIG3, "--word", f"dram:0:{'9' * 100_000}"),
    "program": ("compile", FIG3, "--program", LONG),
    "update": ("check", FIG3, "--update", "--pins", LONG),
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_an_argument_is_cut(arguments: tuple[object, ...]) -> None:
    assert len(refused(*arguments)) < 1000


@pytest.mark.parametrize(
    "arguments",
    [
        ("assemble", "p.txt", ""),
        ("disassemble", "p.bin", ""),
        ("layout", "f32[4,4]", "--plot", ""),
        ("compile", FIG3, "--program", ""),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_file_name_is_needed(arguments: tuple[object, ...]) -> None:
    Path("p.txt").write_text(PROGRAM_HEAD, encoding="utf-8")
    assert run_command("assemble", "p.txt", "p.bin")[0] == 0
    before = sorted(Path().iterdir())
    status, _, err = run_command(*arguments)
    assert status == 2
    assert re.search("the name of a file|needs a file name", err)
    assert err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


RACE = PROGRAM_HEAD + (
    "input a (4, 4) = state_buffer[0:4]+0 f32 (1x4)\n"
    "input w (4, 4) = state_buffer[0:4]+64 f32 (1x4)\n"
    "\n# the weights\n"
    "load weights=state_buffer[0:4]+64 f32 (1x4)\n"
    "matmul moving=state_buffer[0:4]+0 f32 (1x4) result=result_buffer[0:4]+0 f32 (1x4)\n"
    "\n"
    "copy activation source=result_buffer[0:4]+0 f32 (1x4) "
    "target=state_buffer[0:4]+128 f32 (1x4)\n"
)


def test_lint_names_file_and_line() -> None:
    Path("p.txt").write_text(RACE, encoding="utf-8")
    status, out, _ = run_command("lint", "p.txt")
    assert status == 1
    first = out.splitlines()[0]
    assert first.startswith("p.txt:12: error read-after-write: "), out
    assert "instruction 2 (Copy, line 12)" in first
    assert "instruction 1 (MatMul, line 10)" in first
    assert "instruction 2 (Copy, line 12)" in refused("run", "p.txt", "--values", "none")
    assert run_command("assemble", "p.txt", "p.bin")[0] == 0
    assert run_command("lint", "p.bin")[1].startswith(
        "error read-after-write: instruction 2 (Copy)"
    )
