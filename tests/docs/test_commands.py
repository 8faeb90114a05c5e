"""Do README.md and docs/*.md show true output? Every fenced block and every command is run.

A listing (`$ systolic ...` and lines) must print exactly these lines; `--update-docs` writes it
again instead. A command without output must succeed. Python, run files, programs and single
instructions must be accepted. A block or a command that no test knows how to run fails.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import systolic
from support.command_line import run_command
from support.documents import (
    PAGES,
    ROOT,
    TOOLS,
    Block,
    Command,
    Kind,
    Listing,
    blocks,
    commands,
    kind_of,
    listings,
    matches,
    rewrite,
)
from systolic.config import load_run
from systolic.isa.formats.write_text import parse_text
from systolic.pytest_plugin import UPDATE

DIGITS = "configs/runs/transpose_digits.toml"
FIG_3, FIG_4 = "configs/runs/transpose_fig3.toml", "configs/runs/transpose_fig4.toml"
LAYER = "configs/programs/layer.txt"
SEARCH = "systolic sweep configs/sweeps/neuroncore_search.toml"
QUERY = """'select "chip.dma.queues", min(cycles) from results group by 1'"""

# What is run for a command with placeholders: all of its forms.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "systolic run configs/programs/layer.txt --input FOLDER": (
        f"systolic run {LAYER} --input folder",
    ),
    "systolic lint PROGRAM": (f"systolic lint {LAYER}",),
    "systolic compile RUN.toml --program FILE": (
        f"systolic compile {FIG_3} --program file.txt",
        f"systolic compile {FIG_3} --program file.bin --inputs given",
        "systolic run file.bin --input given",
    ),
    "systolic compile RUN.toml --after lower|tile|place|schedule|sync": tuple(
        f"systolic compile {FIG_3} --after {name}"
        for name in ("lower", "tile", "place", "schedule", "sync")
    ),
    'systolic layout "f32[4,6]" --buffer state_buffer --chip NAME': (
        'systolic layout "f32[4,6]" --buffer state_buffer --chip ideal_4x4',
    ),
    "systolic run FILE": (f"systolic run {FIG_3}",),
    "systolic run configs/runs/NAME.toml --values none": (f"systolic run {FIG_3} --values none",),
    "systolic run configs/networks/NAME.toml --values none --no-plots": (
        "systolic run configs/networks/digits_mlp.toml --values none --no-plots",
    ),
    "systolic run NETWORK --layers 3:7": (
        "systolic run configs/networks/digits_mlp.toml --layers 1:3 --no-plots",
    ),
    "systolic run FILE \\| head -1": (f"systolic run {FIG_3}",),
    "systolic run --again summary.json": (
        f"systolic run {FIG_3} --no-plots --out o",
        "systolic run --again o/summary.json",
    ),
    "systolic validate FILE.csv": ("systolic validate configs/validation/neuroncore.csv",),
    "systolic check RUN... --pins FILE --update": (
        f"systolic check {FIG_3} --pins pins.toml --update",
    ),
    "systolic check --runs DIR --pins FILE": (
        "systolic check --runs example --pins example/cycles.toml",
    ),
    "systolic check RUN... --pins FILE": (
        f"systolic check {FIG_3} --pins pins.toml --update",
        f"systolic check {FIG_3} --pins pins.toml",
    ),
    "systolic layout SHAPE --plot tiles.png": (
        'systolic layout "f32[40,50]{1,0:T(2,8)}" --plot tiles.png',
    ),
    "systolic run PROGRAM [--chip CHIP] --input NAME=FILE.npy ... [--out FOLDER]": (
        f"systolic run {LAYER} --input x=x.npy --input w=w.npy --input b=b.npy",
        f"systolic run {LAYER} --chip ideal_4x4 --input folder --out results",
    ),
    "systolic sweep FILE": (f"{SEARCH} --points 2 --no-plots",),
    f"{SEARCH} --out out/search --values none": (
        f"{SEARCH} --out out/search --values none --points 2",
    ),
    f"systolic sweep --out out/search --query {QUERY}": (
        f"{SEARCH} --out out/search --values none --points 2 --no-plots",
        f"systolic sweep --out out/search --query {QUERY}",
    ),
    "systolic trace PROGRAM ... --kind KIND": tuple(
        f"systolic trace {LAYER} --input folder --kind {kind}" for kind in ("load", "psum_write")
    ),
    "systolic at PROGRAM ... --cycle 9": (f"systolic at {LAYER} --input folder --cycle 9",),
    "systolic watch PROGRAM ... --word BUFFER:PARTITION:ADDRESS": (
        f"systolic watch {LAYER} --input folder --word state_buffer:0:1536",
    ),
    "systolic explain PROGRAM [--chip CHIP]": (f"systolic explain {LAYER} --chip ideal_4x4",),
    "systolic diff PROGRAM OTHER [--chip CHIP]": (
        f"systolic diff {LAYER} {FIG_3} --chip ideal_4x4",
    ),
    "systolic export FORMAT PROGRAM [--chip CHIP] --out FILE": (
        f"systolic export vcd {LAYER} --chip ideal_4x4 --out FILE.vcd",
    ),
    "systolic check PROGRAM [--chip CHIP] --pins FILE": (
        f"systolic check {LAYER} --chip ideal_4x4 --pins pins.toml --update",
        f"systolic check {LAYER} --pins pins.toml",
    ),
    "systolic trace RUN --kind descriptor": (
        f"systolic trace {FIG_3} --set workload.home=dram --kind descriptor",
    ),
    "systolic plot VIEW RUN": (f"systolic plot timeline {FIG_3}",),
    "systolic explain RUN.toml": (f"systolic explain {FIG_3}",),
    "systolic explain RUN.toml --json": (f"systolic explain {FIG_3} --json",),
    "systolic explain PROGRAM": (f"systolic explain {LAYER}",),
    "systolic diff A B": (f"systolic diff {FIG_3} {FIG_4}",),
    "systolic diff A B --json": (f"systolic diff {FIG_3} {FIG_4} --json",),
    "systolic export perfetto RUN.toml --out FILE": (
        f"systolic export perfetto {FIG_3} --out FILE.json",
        f"systolic export perfetto {LAYER} --out FILE.json",
    ),
    "systolic export vcd RUN.toml --out FILE": (
        f"systolic export vcd {FIG_3} --out FILE.vcd",
        f"systolic export vcd {LAYER} --out FILE.vcd",
    ),
    "systolic export parquet RUN.toml --out FILE": (
        f"systolic export parquet {FIG_3} --out FILE.parquet",
        f"systolic export parquet {LAYER} --out FILE.parquet",
    ),
    "systolic assemble IN.txt OUT.bin": (f"systolic assemble {LAYER} out.bin",),
    "systolic disassemble IN.bin [OUT.txt]": (
        f"systolic assemble {LAYER} in.bin",
        "systolic disassemble in.bin",
        "systolic disassemble in.bin out.txt",
    ),
    "systolic lint PROGRAM [--chip CHIP]": (
        f"systolic lint {LAYER}",
        f"systolic lint {LAYER} --chip ideal_4x4",
    ),
    "systolic compile RUN.toml --program PROGRAM [--inputs FOLDER]": (
        f"systolic compile {FIG_3} --program file.txt",
        f"systolic compile {FIG_3} --program file.bin --inputs given",
    ),
}  # fmt: skip

# Commands of more than about three seconds, each with why: the slow tier runs them.
SLOW = {
    "systolic check": "runs every shipped run file",
    "systolic check --update --pins configs/pinned_cycles.toml": "as above",
    "systolic validate": "products of 2048",
    "systolic validate FILE.csv": "as above",
    "systolic run configs/runs/transpose_vs_dram.toml": "92 runs and a picture",
}

# What the python of a page takes as given.
GIVEN = {
    "docs/layouts.md": """
import ml_dtypes
import numpy as np
from systolic.layout import binary
array = np.zeros((33, 200), ml_dtypes.bfloat16)
matrix, vector = np.ones((2, 3)), np.ones(3)
column, row = np.ones(4), np.ones((1, 2))
""",
    "docs/explain.md": f"""
from support.command_line import run_command
run_command("export", "parquet", "{FIG_3}", "--out", "run.parquet")
""",
}

BLOCKS = [block for page in PAGES for block in blocks(page)]


def of_kind(*kinds: str) -> list[Block]:
    return [block for block in BLOCKS if kind_of(block) in kinds]


def tiered(items: list[Any], command: Any, name: Any) -> list[Any]:
    return [pytest.param(item, id=name(item), marks=marks_of(command(item))) for item in items]


def marks_of(command: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if command in SLOW else []


ONNX_MODEL = ROOT / "tests" / "workload" / "importers" / "onnx" / "models" / "digits_cnn.onnx"


def _magika() -> Path:
    """Return the network in the package of that name, which is not imported."""
    name = "magika/models/standard_v3_3/model.onnx"
    return Path(str(metadata.distribution("magika").locate_file(name)))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages use: configs, inputs of the layer, an example."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copytree(ROOT / "tests" / "regression_example", tmp_path / "example")
    rng = np.random.default_rng(0)
    (tmp_path / "folder").mkdir()
    for name, shape in {"x": (6, 4), "w": (4, 3), "b": (3,)}.items():
        array = rng.integers(-8, 8, shape).astype(np.float32)
        np.save(tmp_path / f"{name}.npy", array)
        np.save(tmp_path / "folder" / f"{name}.npy", array)
    for name in ("net", "model"):
        shutil.copy(ONNX_MODEL, tmp_path / f"{name}.onnx")
    shutil.copy(_magika(), tmp_path / "magika.onnx")
    np.save(tmp_path / "images.npy", rng.random((4, 8, 8), np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def printed_by(command: str) -> str:
    """Run one `systolic` command in this process and return what it prints."""
    tool, *arguments = shlex.split(command, comments=True)
    assert tool == "systolic", command
    status, out, err = run_command(*arguments)
    expected = 1 if arguments[0] == "diff" and "--help" not in arguments else 0  # they differ
    assert (status, err) == (expected, ""), (command, status, err)
    return out


# -- listings -------------------------------------------------------------------------------------


ALL_LISTINGS = [listing for block in of_kind("listing") for listing in listings(block)]


@pytest.mark.parametrize(
    "listing",
    tiered(ALL_LISTINGS, lambda one: one.command, lambda one: f"{one.block.where} {one.command}"),
)
def test_a_listing_is_what_is_printed(
    listing: Listing, desk: Path, request: pytest.FixtureRequest
) -> None:
    printed = tuple(line.rstrip() for line in printed_by(listing.command).splitlines())
    shown = tuple(line.rstrip() for line in listing.output)
    if matches(shown, printed):
        return
    if request.config.getoption("--update-docs"):
        rewrite(listing, printed)
        pytest.skip(f"{listing.block.where} was written again")
    assert shown == printed  # pytest shows the lines that differ


# -- commands -------------------------------------------------------------------------------------


LENGTH = re.compile(r"# ([\d,]+) cycles(?: instead of ([\d,]+))?$")


def plain(command: Command) -> str:
    """Return a command without its comment and with single blanks."""
    return " ".join(command.text.split("#")[0].split())


def each_once() -> list[Command]:
    """Return the commands of all pages: one that stands in several places is tried once.

    It is tried again where a comment names another length of the run.
    """
    found: dict[tuple[str, str], Command] = {}
    for command in (command for page in PAGES for command in commands(page)):
        said = LENGTH.search(command.text)
        found.setdefault((plain(command), said[0] if said else ""), command)
    return list(found.values())


ALL_COMMANDS = each_once()


@pytest.mark.parametrize(
    "command", tiered(ALL_COMMANDS, plain, lambda one: f"{one.where} {plain(one)}")
)
def test_a_command_succeeds(command: Command, desk: Path) -> None:
    text = plain(command)
    tool, *words = text.split()
    if tool == "make":
        dry_run(words)
    elif tool in ("python", "pytest"):
        _check_script(tool, words)
    elif len(words) == 1 and text not in SLOW:
        printed_by(f"{text} --help")  # a command named in the text
    else:
        for example in EXAMPLES.get(text, (text,)):
            _check_length(command.text, printed_by(example), example)


def _check_length(text: str, printed: str, command: str) -> None:
    """Hold cycles that a comment names against the run, and against the run without `--set`."""
    said = LENGTH.search(text)
    if said:
        assert f"length   {said[1]} cycles" in printed
    if said and said[2]:
        without = printed_by(re.sub(r" --set \S+", "", command))
        assert f"length   {said[2]} cycles" in without


def dry_run(targets: list[str]) -> list[str]:
    """Return the commands that make would run; only that the target exists is checked here."""
    done = subprocess.run(
        ["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _check_script(tool: str, words: list[str]) -> None:
    if words[0] == "-m" and tool == "pytest":
        marks = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        assert f'    "{words[1]}: ' in marks
    elif words[0].startswith("--"):
        assert (tool, words) == ("pytest", [UPDATE])
    elif words[0] == "-m":
        module = Path(*words[1].split("."))
        assert any((place / module / "__main__.py").is_file() for place in (ROOT, ROOT / "sim"))
    else:
        assert (ROOT / words[0]).is_file()


def test_examples_and_marks_are_of_commands_that_stand_there() -> None:
    there = {plain(command) for command in ALL_COMMANDS} | {one.command for one in ALL_LISTINGS}
    assert set(EXAMPLES) | set(SLOW) <= there
    assert set(GIVEN) <= {str(page.relative_to(ROOT)) for page in PAGES}


def test_make_demo_leaves_what_readme_promises(desk: Path) -> None:
    (line,) = [line for line in dry_run(["demo"]) if "/systolic " in line]
    printed_by("systolic " + line.partition("/systolic ")[2])
    found = sorted(path.name for path in (desk / "out" / "demo").iterdir())
    assert found == ["result.npy", "summary.json", "wavefront.png"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if line.startswith("make demo")]
    assert line.endswith("with a picture in out/demo")


# -- other blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_runs_and_gives_what_its_comments_say(page: Path, desk: Path) -> None:
    """The blocks of a page run one after the other, as a reader would run them."""
    names: dict[str, Any] = {}
    exec(GIVEN.get(str(page.relative_to(ROOT)), ""), names)
    for block in blocks(page):
        if kind_of(block) == "python":
            _run_python(block, names)


def _run_python(block: Block, names: dict[str, Any]) -> None:
    lines = block.text.splitlines()
    for node in ast.parse(block.text).body:
        source = ast.get_source_segment(block.text, node) or ""
        code = compile(source, block.where, "eval" if isinstance(node, ast.Expr) else "exec")
        value = eval(code, names)
        comment = lines[(node.end_lineno or 1) - 1].partition("  # ")[2]
        said = re.match(r"(\(.*?\)|-?\d+)(?=$|[,;])", comment)
        if said and isinstance(node, ast.Expr):
            assert value == ast.literal_eval(said[1]), (block.where, source)


@pytest.mark.parametrize("block", of_kind("toml"), ids=lambda block: block.where)
def test_a_run_file_runs(block: Block, desk: Path) -> None:
    path = desk / "example.toml"
    path.write_text(block.text, encoding="utf-8")
    assert systolic.run(load_run(path)).summary["values"]["equal"] is True


@pytest.mark.parametrize("block", of_kind("program"), ids=lambda block: block.where)
def test_a_program_is_clean(block: Block, desk: Path) -> None:
    (desk / "program.txt").write_text(block.text, encoding="utf-8")
    assert printed_by("systolic lint program.txt").strip()


@pytest.mark.parametrize("block", of_kind("instructions"), ids=lambda block: block.where)
def test_instructions_are_read(block: Block) -> None:
    module = parse_text(f"systolic program 1\n{block.text}")
    assert len(module.program.instructions) == len(block.lines)


def test_every_block_is_of_a_known_kind() -> None:
    assert {kind_of(block) for block in BLOCKS} <= set(get_args(Kind))


# -- the harness itself ---------------------------------------------------------------------------


def page_of(folder: Path, text: str) -> Path:
    """A page below the root, where `Block.where` and `commands` look for pages."""
    path = folder / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("support.documents.ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "```\nsome words\n```",
        "```bash\nsystolic check\n```",
        "```\n```",
        "```text\n$ systolic check\n```",
        "```\nsystolic check\nand words\n```",
    ],
)
def test_a_block_of_no_known_kind_is_refused(text: str, here: Path) -> None:
    (block,) = blocks(page_of(here, f"# A page\n\n{text}\n"))
    with pytest.raises(ValueError, match=r"^page\.md:3: "):
        kind_of(block)


def test_a_command_in_an_indented_block_is_refused(here: Path) -> None:
    with pytest.raises(ValueError, match=r"^page\.md:2: a command in an indented block"):
        commands(page_of(here, "Thus:\n    systolic check\n"))


def test_commands_of_blocks_and_of_the_text_are_found(here: Path) -> None:
    page = page_of(here, "See `systolic at` and `x`.\n\n```\nsystolic check  # now\n```\n")
    assert [(c.where, c.text) for c in commands(page)] == [
        ("page.md:4", "systolic check  # now"),
        ("page.md:1", "systolic at"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b", "a b", True),
        ("a b", "a c", False),
        ("a", "a b", False),
        ("a b", "a", False),
        ("a ... d", "a b c d", True),
        ("a ... d", "a d", True),
        ("... d", "a d", True),
        ("a ...", "a b d", True),
        ("a ... c", "a b d", False),
        ("... b ... d", "a b c b d", True),
    ],
)
def test_an_elision_stands_for_any_lines(shown: str, printed: str, same: bool) -> None:
    assert matches(tuple(shown.split()), tuple(printed.split())) is same


def test_a_listing_is_written_again_in_place(here: Path) -> None:
    both = "```console\n$ systolic at\n{}\n$ systolic watch\n{}\n```\nTwo\n```\nold\n```\n"
    page = page_of(here, both.format("old", "old \n"))
    for listing in listings(blocks(page)[0]):
        rewrite(listing, ("new", "", f"of {listing.command}"))
    written = both.format("new\n\nof systolic at", "new\n\nof systolic watch")
    assert page.read_text(encoding="utf-8") == written


def test_tools_are_what_the_pages_use() -> None:
    assert {plain(command).split()[0] for command in ALL_COMMANDS} == set(TOOLS)
