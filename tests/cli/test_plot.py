"""`systolic plot`: the files of every view in every format, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from support.command_line import refused, run_command
from systolic.config import load_run
from systolic.report.paper.saved import PICTURE_FORMATS
from systolic.report.plots.look import Look
from systolic.report.plots.table import PLOTS
from systolic.report.views import LayoutSubject
from systolic.shipped import CONFIGS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"
CHAIN = CONFIGS / "runs" / "matmul_chain.toml"
SHAPE = "bf16[8,12]{1,0:T(2,4)(2,1)}"
LAYER = CONFIGS / "programs" / "layer.txt"
SEVERAL_CORES = CONFIGS / "programs" / "exchange.txt"
NETWORK = CONFIGS / "systems" / "clos_incast.toml"
WORKS = {"run": FIG_3, "shape": SHAPE, "cores": SEVERAL_CORES, "network": NETWORK}
WINDOWS = {
    "run": ("4:14", "4:", ":14", "0:99999"),
    "cores": ("100:500", "100:", ":500", "0:99999"),
    "network": ("1000:9000", "1000:", ":9000", "0:99999"),
}
OF_RUNS = [name for name, each in PLOTS.items() if each.given == "run"]
OF_SUMMARIES = [name for name, each in PLOTS.items() if each.given == "summary"]
WINDOWED = [name for name, each in PLOTS.items() if "cycles" in each.takes]


@pytest.fixture(scope="module")
def chain_summary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    told = run_command("run", CHAIN, "--values", "none", "--no-plots", "--out", folder)
    assert told[0] == 0, told
    return folder


def plot(view: str, file: Path, *options: object, summary: Path | None = None) -> None:
    """Draw a view of a small work that has something to show for it."""
    work = summary if view in OF_SUMMARIES else WORKS[PLOTS[view].given]
    in_dram = ("--set", "workload.home=dram") if view == "dram" else ()
    told = run_command("plot", view, work, "--out", file, *in_dram, *options)
    assert told == (0, f"{file}\n", "")


def check(path: Path) -> None:
    """The file is a picture of its format, with something on it."""
    if path.suffix == ".png":
        image = imread(path)[..., :3]
        assert image.shape[1] >= 500
        assert 0.003 < (image != image[0, 0]).any(axis=2).mean() < 0.95
    elif path.suffix == ".svg":
        root = ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg")
        assert len(list(root.iter())) > 50
    else:
        data = path.read_bytes()
        assert data.startswith(b"%PDF-")
        assert data.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize("form", PICTURE_FORMATS)
@pytest.mark.parametrize("view", PLOTS)
def test_every_view_in_every_format(
    view: str, form: str, chain_summary: Path, tmp_path: Path
) -> None:
    file = tmp_path / "deep" / f"picture.{form}"
    plot(view, file, summary=chain_summary)
    check(file)
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    before = file.read_bytes()
    plot(view, file, summary=chain_summary)
    assert file.read_bytes() == before, "the same picture is another file"


@pytest.mark.parametrize("view", PLOTS)
def test_every_view_in_the_dark(view: str, chain_summary: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{theme}.png" for theme in ("light", "dark")]
    for file in files:
        plot(view, file, "--theme", file.stem, summary=chain_summary)
        check(file)
    light, dark = (imread(file)[0, 0, :3].mean() for file in files)
    assert light == 1
    assert dark < 0.2


@pytest.mark.parametrize("view", sorted({*OF_RUNS} - {"dram", "wavefront"}))
def test_a_program(view: str, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    assert run_command("plot", view, LAYER, "--out", file) == (0, f"{file}\n", "")
    check(file)


@pytest.mark.parametrize("view", WINDOWED)
def test_a_window(view: str, tmp_path: Path) -> None:
    pictures = []
    for cycles in WINDOWS[PLOTS[view].given]:
        file = tmp_path / "picture.png"
        plot(view, file, "--cycles", cycles)
        check(file)
        pictures.append(file.read_bytes())
    assert len(set(pictures)) == 4
    plot(view, file)
    assert file.read_bytes() == pictures[-1], "all cycles are no window"


@pytest.mark.parametrize("view", WINDOWED)
def test_windows_that_are_none(view: str, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    work = WORKS[PLOTS[view].given]
    last = {"run": 18, "cores": 643, "network": 50278}[PLOTS[view].given]
    assert refused("plot", view, work, "--out", file, "--cycles", "60000:60030") == (
        f"--cycles: cycles 60000 to 60029 lie outside the run, which has cycles 0 to {last}"
    )
    for text in ("4", "4:4", "9:4", "a:b", "-1:4", "1:2:3", ""):
        assert refused("plot", view, work, "--out", file, "--cycles", text) == (
            f'--cycles: needs FIRST:STOP with FIRST before STOP, such as 4:14, found "{text}"'
        )
    assert list(tmp_path.iterdir()) == []


def test_the_default_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command("plot", "timeline", FIG_3) == (0, "timeline.png\n", "")
    assert run_command("plot", "timeline", FIG_3, "--format", "svg") == (0, "timeline.svg\n", "")
    assert run_command("plot", "timeline", FIG_3, "--out", "a.x", "--format", "pdf")[0] == 0
    assert Path("a.x").read_bytes().startswith(b"%PDF-")


def test_the_list_names_every_view() -> None:
    status, out, err = run_command("plot", "--list")
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == list(PLOTS)


def test_unknown_words(tmp_path: Path) -> None:
    known, file = ", ".join(PLOTS), tmp_path / "a.png"
    assert refused("plot", "timelnie", FIG_3, "--out", file) == (
        f'VIEW: there is no "timelnie" (known: {known}); perhaps "timeline" was meant'
    )
    assert refused("plot") == f"VIEW: is missing (known: {known})"
    assert refused("plot", "timeline") == (
        "RUN|PROGRAM|SUMMARY: is missing; needed what is to be drawn"
    )
    assert refused("plot", "timeline", FIG_3, "--format", "pgn") == (
        '--format: there is no format "pgn" (known: png, svg, pdf); perhaps "png" was meant'
    )
    assert refused("plot", "timeline", FIG_3, "--out", tmp_path / "a.jpeg") == (
        f'--out {tmp_path / "a.jpeg"}: there is no format "jpeg" (known: png, svg, pdf)'
    )
    assert refused("plot", "timeline", FIG_3, "--out", file, "--theme", "drak") == (
        '--theme: there is no "drak" (known: light, dark); perhaps "dark" was meant'
    )
    assert list(tmp_path.iterdir()) == []


def test_options_that_mean_nothing(chain_summary: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    assert refused("plot", "layers", chain_summary, "--out", file, "--cycles", "1:2") == (
        "--cycles: means nothing to the view layers"
    )
    assert refused("plot", "layers", chain_summary, "--out", file, "--set", "name=x") == (
        f"--set: is for run files and programs, and {chain_summary} is a summary"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_what_is_to_be_shown(tmp_path: Path) -> None:
    for work in (FIG_3, LAYER):
        name = "transpose_fig3" if work == FIG_3 else "layer"
        told = refused("plot", "dram", work, "--out", tmp_path / "a.png")
        assert told == f"{name}: moves nothing from or to DRAM"
    told = refused("plot", "layers", FIG_3, "--out", tmp_path / "a.png")
    assert told.startswith("transpose_fig3: has no operations to draw; needed the run of a graph")
    assert list(tmp_path.iterdir()) == []


def test_shapes(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    large = "f32[400,500]{1,0:T(8,128)}"
    assert run_command("plot", "layout", large, "--index", "30,77", "--out", file)[0] == 0
    check(file)
    assert refused("plot", "layout", SHAPE, "--out", file, "--chip", "ideal_4x4") == (
        f"--chip: is for run files and programs, and {SHAPE} is a shape"
    )
    assert refused("plot", "layout", SHAPE, "--out", file, "--index", "8,0").startswith("index")
    assert refused("plot", "layout", "f32[2", "--out", file)
    assert refused("plot", "timeline", FIG_3, "--out", file, "--index", "1,1") == (
        "--index: means nothing to the view timeline"
    )


def test_tensors_of_a_run_file(tmp_path: Path) -> None:
    """The picture of a tensor is that of its shape, under its own title."""
    file, mlp = tmp_path / "a.png", CONFIGS / "networks" / "digits_mlp.toml"
    told = run_command("plot", "layout", mlp, "--tensor", "w1", "--index", "3,4", "--out", file)
    assert told == (0, f"{file}\n", "")
    check(file)
    shape, again = load_run(mlp).graph.shape("w1"), tmp_path / "b.png"
    look = Look(f"w1: {shape}")
    PLOTS["layout"].write(LayoutSubject(shape, (3, 4)), look, again)
    assert file.read_bytes() == again.read_bytes()


def test_tensors_that_are_not_there(tmp_path: Path) -> None:
    file, mlp = tmp_path / "a.png", CONFIGS / "networks" / "digits_mlp.toml"
    names = [name for name, _ in load_run(mlp).graph.tensors]
    assert refused("plot", "layout", mlp, "--tensor", "w11", "--out", file) == (
        f'--tensor: there is no "w11" (known: {", ".join(names)}); perhaps "w1" was meant'
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    assert refused("plot", "layout", mlp, "--out", file) == (
        f"--tensor: is missing; needed one of {quoted}"
    )
    assert refused("plot", "layout", LAYER, "--tensor", "a", "--out", file) == (
        f"{LAYER}: has no tensors with layouts; needed a run file, or a shape"
    )
    assert refused("plot", "timeline", FIG_3, "--tensor", "a", "--out", file) == (
        "--tensor: means nothing to the view timeline"
    )
    assert not file.exists()


def test_summaries_that_will_not_do(chain_summary: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    assert refused("plot", "timeline", chain_summary, "--out", file) == (
        f"{chain_summary}: is a summary, which does not tell what timeline shows; "
        "needed a run file or a program"
    )
    old = json.loads((chain_summary / "summary.json").read_text()) | {"schema": 999}
    (tmp_path / "old.json").write_text(json.dumps(old))
    line = refused("plot", "layers", tmp_path / "old.json", "--out", file)
    assert line.startswith(f"{tmp_path / 'old.json'}: is of summary schema 999; needed schema ")
    assert not file.exists()


def test_the_file_that_is_read_is_not_written(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(FIG_3.read_text())
    assert refused("plot", "timeline", own, "--out", own, "--format", "png") == (
        f"{own}: this run reads it; needed another file (--out FILE)"
    )


@pytest.mark.parametrize("form", PICTURE_FORMATS)
def test_a_folder_in_the_way_and_a_full_disk(form: str, tmp_path: Path) -> None:
    told = refused("plot", "timeline", FIG_3, "--out", tmp_path, "--format", form)
    assert told == f"{tmp_path}: is a folder; needed the name of a file to write"
    if Path("/dev/full").exists():
        told = refused("plot", "timeline", FIG_3, "--out", "/dev/full", "--format", form)
        assert told == "/dev/full: cannot be written (No space left on device)"


@pytest.mark.parametrize("form", PICTURE_FORMATS)
def test_a_disk_that_is_full_half_way(form: str, tmp_path: Path) -> None:
    """Of a few thousand bytes: the file that was there stays.

    -B: Python would leave bytecode cut off at that size, and every later process would fail on it.
    """
    file = tmp_path / "picture.old"
    file.write_text("old")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))"
    call = f"{limit}; import sys; from systolic.cli.main import main; sys.exit(main())"
    arguments = ["plot", "timeline", str(FIG_3), "--out", str(file), "--format", form]
    told = subprocess.run(
        [sys.executable, "-B", "-c", call, *arguments], capture_output=True, text=True, check=False
    )
    line = f"systolic: error: {file}: cannot be written (File too large)\n"
    assert (told.returncode, told.stdout, told.stderr) == (2, "", line)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("picture.old", "old")
    ]


def test_matplotlib_is_loaded_only_to_draw() -> None:
    call = (
        "import sys; from systolic.cli.main import call; call(['plot', '--list']); "
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", call], check=True, capture_output=True)


def test_no_view_uses_pyplot(tmp_path: Path) -> None:
    """Its figures would be kept and numbered for a screen that is not there."""
    call = (
        "import sys; from systolic.cli.main import call; "
        f"assert call(['plot', 'timeline', {str(FIG_3)!r}, '--out', 'a.svg']) == 0; "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, cwd=tmp_path)
