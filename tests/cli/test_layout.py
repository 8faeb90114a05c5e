"""Does ``systolic layout`` say what the package says, in tables and in JSON?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from support.command_line import refused, run_command
from systolic.cli.layout import (
    chip_placement,
    layout_command,
    memory_order,
    placement_facts,
)
from systolic.layout import LayoutError, Shape

PAGE = typer.Typer()
PAGE.command()(layout_command)
FIGURE_1 = "F32[3,5]{1,0:T(2,2)}"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(PAGE, arguments, env={"COLUMNS": "120"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_json_of_figure_1() -> None:
    assert json.loads(run(FIGURE_1, "--index", "2,3", "--json")) == {
        "shape": "f32[3,5]{1,0:T(2,2)}",
        "physical_dims": [2, 3, 2, 2],
        "elements": 15,
        "padded_elements": 24,
        "bytes": 96,
        "xla_array_size": 96,
        "index": [2, 3],
        "offset": 17,
    }


def test_json_of_an_offset() -> None:
    assert json.loads(run(FIGURE_1, "--at", "17", "--json"))["index"] == [2, 3]
    assert json.loads(run(FIGURE_1, "--at", "9", "--json"))["index"] is None
    facts = json.loads(run("f32[2,7]{1,0:T(*,3)}", "--json"))
    assert (facts["xla_array_size"], facts["index"], facts["offset"]) == (None, None, None)


def test_table() -> None:
    shown = run(FIGURE_1, "--at", "9", "--to", "f32[3,5]")
    assert "24 (37.5% padding)" in shown
    assert "2 x 3 x 2 x 2" in shown
    assert "padding" in shown.split("offset 9")[1].splitlines()[0]
    assert "memory order: 0 1 5 6 2 3 7 8 4 . 9 . 10 11 . ." in shown
    assert "relayout to f32[3,5]{1,0}: 60 bytes in 9 contiguous runs" in shown


def test_relayout_json() -> None:
    cost = json.loads(run(FIGURE_1, "--to", "f32[3,5]", "--json"))["relayout"]
    assert (cost["bytes"], cost["runs"]) == (60, 9)


def test_memory_order() -> None:
    assert memory_order(Shape.parse("f32[2,2]{0,1:T(1,3)}")) == "0 2 . 1 3 ."


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    shipped = Path(__file__).parents[2] / "configs" / "chips"
    files = sorted(shipped.glob("*.toml"))
    if not files:
        pytest.skip("no chip files yet")
    return files[0]


def test_state_buffer_of_a_chip(chip: Path) -> None:
    facts = json.loads(run("f32[3,2]", "--buffer", "state_buffer", "--chip", str(chip), "--json"))
    places = {
        tuple(p["index"]): (p["partition"], p["byte"]) for p in facts["placement"]["elements"]
    }
    assert places == {(r, c): (r, 4 * c) for r in range(3) for c in range(2)}


def test_result_buffer_of_a_chip(chip: Path) -> None:
    shown = run("f32[3,2]", "--buffer", "result_buffer", "--chip", str(chip), "--block", "4,2")
    assert "result_buffer: 2 partitions, 16 bytes in each" in shown
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["(2, 1)", "1", "0", "8"] in cells


def test_dram_needs_no_chip() -> None:
    shown = run("s4[3]{0:E(4)}", "--buffer", "dram")
    assert "0 (bit 4)" in shown


def test_picture(tmp_path: Path) -> None:
    target = tmp_path / "picture.png"
    assert f"picture: {target}" in run(FIGURE_1, "--plot", str(target)).replace("\n", "")
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([FIGURE_1, "--index", "2,x"],
         'an index is numbers and commas, e.g. "2,3", or letters, e.g. "y=2 x=3", found "2,x"'),
        ([FIGURE_1, "--index", "2,3", "--at", "1"],
         "either --index or --at can be asked for, found both"),
        ([FIGURE_1, "--to", "f32[5,3]"],
         "--to must be the same array in another layout, found f32[5,3]{1,0}"),
        ([FIGURE_1, "--buffer", "statebuffer"],
         "--buffer must be one of state_buffer, result_buffer, dram, "
         'found "statebuffer"; perhaps "state_buffer" was meant'),
        ([FIGURE_1, "--buffer", "state_buffer"],
         "--buffer state_buffer needs --chip NAME: its size is the chip's"),
        ([FIGURE_1, "--buffer", "state_buffer", "--chip", "ideal_128x128", "--block", "2,2"],
         "f32[3,5]{1,0:T(2,2)} has tiles, which say where it lies; a block cannot be chosen"),
        (["f32[300,5]{1,0:T(200,5)}", "--buffer", "state_buffer", "--chip", "ideal_128x128"],
         "f32[300,5]{1,0:T(200,5)}: a tile has 200 rows, each in a partition of its own, but there "
         "are 128 partitions"),
        (["f32[3"],
         "'f32[3', column 6: expected \"]\" or a comma after a dimension, found the end"),
        (["f32[0,100]", "--plot", "x.png"],
         "f32[0,100]{1,0} has no elements: there is nothing to draw"),
        ([FIGURE_1, "--plot", ""],
         'a picture needs a file name with an ending that says its format, e.g. tiles.png, '
         'found ""'),
        ([FIGURE_1, "--plot", "tiles"],
         'a picture needs a file name with an ending that says its format, e.g. tiles.png, '
         'found "tiles"'),
    ],
)  # fmt: skip
def test_refusals(arguments: list[str], message: str) -> None:
    with pytest.raises(LayoutError) as refused:
        CliRunner().invoke(PAGE, arguments, catch_exceptions=False)
    assert str(refused.value) == message


LARGE = "bf16[33,200]{1,0:T(8,128)(2,1)}"


def test_the_readme_command_shows_a_window_of_a_large_shape(tmp_path: Path) -> None:
    target = tmp_path / "tiles.png"
    shown = run(LARGE, "--index", "2,3", "--plot", str(target))
    assert "offset 262" in shown
    assert f"picture: {target} (a window: rows 0 to 15 of 40, columns 0 to 15 of 256)" in shown
    assert target.read_bytes().startswith(b"\x89PNG")
    facts = json.loads(run(LARGE, "--index", "32,199", "--plot", str(target), "--json"))
    assert facts["window"]["rows"] == {"first": 24, "stop": 40, "of": 40}
    assert facts["window"]["columns"]["first"] <= 199 < facts["window"]["columns"]["stop"]


@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_is_not_lost_with_the_picture(tmp_path: Path, as_json: bool) -> None:
    (tmp_path / "file").touch()
    plot = str(tmp_path / "file" / "tiles.png")
    arguments = [LARGE, "--index", "2,3", "--plot", plot, *(["--json"] if as_json else [])]
    result = CliRunner().invoke(PAGE, arguments, env={"COLUMNS": "120"})
    assert str(result.exception).startswith(f"{plot}: cannot be written (")
    assert ('"offset": 262' if as_json else "offset 262") in result.output
    assert "picture" not in result.output


def test_no_picture_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LayoutError):
        CliRunner().invoke(PAGE, [FIGURE_1, "--plot", ""], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_a_large_placement_is_listed_as_far_as_it_goes() -> None:
    arguments = (LARGE, "--buffer", "state_buffer", "--chip", "ideal_128x128")
    shown = run(*arguments)
    assert "(0, 0)" in shown
    assert "(1, 55)" in shown
    assert "(1, 56)" not in shown
    assert (
        "6344 more elements are not listed (the table has the first 256): "
        "--index shows any one, --json lists up to 1,000,000" in shown
    )
    placement = json.loads(run(*arguments, "--json"))["placement"]
    places = {tuple(e["index"]): (e["partition"], e["byte"]) for e in placement["elements"]}
    # Two rows share a partition, element by element; the second tile is behind the first.
    expected = {(r, c): (r // 2, 2 * (2 * c + r % 2)) for r in range(33) for c in range(200)}
    assert places == expected
    assert placement["left_out"] == 0


def test_json_of_more_than_a_million_says_what_it_leaves_out() -> None:
    placed = chip_placement(Shape.parse("s8[1001,1000]"), "dram", None)
    facts = placement_facts(placed, None)
    assert (len(facts["elements"]), facts["left_out"]) == (1_000_000, 1000)
    assert facts["elements"][-1]["index"] == [999, 999]
    only = placement_facts(placed, (1000, 999))
    assert (only["elements"][0]["byte"], only["left_out"]) == (1_000_999, 0)


def test_placement_of_a_scalar() -> None:
    facts = placement_facts(chip_placement(Shape.parse("f32[]"), "dram", None), None)
    assert facts["elements"] == [{"index": [], "partition": 0, "bank": 0, "byte": 0, "bit": 0}]


def test_dram_placement_is_flat() -> None:
    assert chip_placement(Shape.parse(FIGURE_1), "dram", None).spreading.row is None


def test_a_shape_without_tiles_lies_as_in_a_run_or_in_the_blocks_asked_for() -> None:
    arguments = ("f32[300,1000]", "--buffer", "state_buffer", "--chip", "ideal_128x128")
    assert "128 partitions, 12000 bytes in each, as f32[300,1000]{1,0:T(128,1000)}" in run(
        *arguments
    ).replace("\n", " ")
    one = run(*arguments, "--block", "128,128", "--index", "130,300", "--json")
    (place,) = json.loads(one)["placement"]["elements"]
    assert (place["partition"], place["byte"]) == (2, 4 * ((1 * 8 + 2) * 128 + 44))


def test_an_element_by_the_letters_of_its_dimensions() -> None:
    assert json.loads(run(FIGURE_1, "--index", "x=3 y=2", "--json"))["offset"] == 17


def test_legacy_padding_by_name() -> None:
    # Seed 001: [2 x 3], padded to [3, 5], y fastest: element (1, 2) is behind two columns of three.
    arguments = ("f32[2,3]{0,1}", "--padded-dimensions", "3,5", "--padding-value", "7")
    facts = json.loads(run(*arguments, "--index", "1,2", "--json"))
    assert (facts["padded_elements"], facts["offset"]) == (15, 2 * 3 + 1)
    with pytest.raises(LayoutError, match="--padding-value needs --padded-dimensions"):
        run("f32[2,3]", "--padding-value", "7")


@pytest.mark.parametrize(
    "line",
    [
        "%copy.3 = {} copy(f32[8,128]{{0,1}} %p.1)",
        "  ROOT %fusion = {} fusion(%a, %b), kind=kLoop, metadata={{op_name=\"x=f32[2]\"}}",
        "copy-start.1 = {} copy(p), sharding={{replicated}}",
        "{}",
    ],
)  # fmt: skip
def test_a_line_of_hlo(line: str) -> None:
    shape = "f32[32,128]{1,0:T(8,128)(2,1)S(1)}"
    found = json.loads(run_command("layout", line.format(shape), "--json")[1])
    assert found == json.loads(run_command("layout", shape, "--json")[1])
    assert found["bytes"] == 32 * 128 * 4


def test_a_line_whose_result_is_a_tuple() -> None:
    assert refused("layout", "%t = (f32[2], s32[]) tuple(%a, %b)") == (
        'needs an instruction that gives one array, found "(f32[2], s32[]) tuple(%a, %b)"'
    )
