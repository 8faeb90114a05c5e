"""`systolic plot wavefront`: its lines, its colours, and its films."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image, ImageSequence

from support.command_line import refused, run_command
from systolic.report.wavefront import animation
from systolic.report.wavefront.manner import BYS, COLOURINGS
from systolic.shipped import CONFIGS

FIG_3 = CONFIGS / "runs" / "transpose_fig3.toml"
SKINNY = CONFIGS / "runs" / "matmul_skinny.toml"
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffprobe") is None, reason="no ffmpeg")


def test_every_way_to_draw_it_is_another_picture(tmp_path: Path) -> None:
    seen = set()
    for by in BYS:
        for colour in COLOURINGS:
            file = tmp_path / f"{by}_{colour}.png"
            told = run_command(
                "plot", "wavefront", FIG_3, "--by", by, "--colour", colour, "--out", file
            )
            assert told == (0, f"{file}\n", "")
            seen.add(file.read_bytes())
    assert len(seen) == len(BYS) * len(COLOURINGS)


def test_vectors_have_a_colour_each(tmp_path: Path) -> None:
    """Four vectors: at the ends of the scale the first and the last of its colours."""
    file = tmp_path / "w.png"
    run_command("plot", "wavefront", FIG_3, "--colour", "vector", "--out", file)
    pixels = (imread(file)[..., :3] * 255).round().astype(int)
    for colour in ("fdeab0", "46196a"):
        wanted = list(bytes.fromhex(colour))
        assert (pixels == wanted).all(axis=2).sum() > 10_000


def test_a_large_run_has_its_grid_without_values(tmp_path: Path) -> None:
    file = tmp_path / "w.png"
    told = run_command("plot", "wavefront", SKINNY, "--cycles", "0:3000", "--out", file)
    assert told == (0, f"{file}\n", "")
    assert imread(file).shape[1] == 2250
    told = refused("plot", "wavefront", SKINNY, "--colour", "value", "--out", tmp_path / "v.png")
    assert told == (
        "values cannot be coloured: the run kept none; "
        "needed a run file of at most 524,288 elements"
    )
    assert not (tmp_path / "v.png").exists()


def test_words_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "w.png"
    assert refused("plot", "wavefront", FIG_3, "--out", file, "--by", "colum") == (
        '--by: there is no "colum" (known: row, column, diagonal); perhaps "column" was meant'
    )
    assert refused("plot", "wavefront", FIG_3, "--out", file, "--colour", "values") == (
        '--colour: there is no "values" (known: activity, vector, value); perhaps "value" was meant'
    )
    assert refused("plot", "timeline", FIG_3, "--out", file, "--by", "column") == (
        "--by: means nothing to the view timeline"
    )
    assert refused("plot", "banks", FIG_3, "--out", file, "--colour", "vector") == (
        "--colour: means nothing to the view banks"
    )
    assert refused("plot", "banks", FIG_3, "--animate", tmp_path / "a.gif") == (
        "--animate: means nothing to the view banks"
    )
    assert list(tmp_path.iterdir()) == []


def frames(path: Path) -> list[np.ndarray]:
    with Image.open(path) as film:
        return [np.array(frame.convert("RGB")) for frame in ImageSequence.Iterator(film)]


def test_a_gif_has_a_frame_for_each_cycle(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "film.gif"
    told = run_command("plot", "wavefront", FIG_3, "--animate", file)
    assert told == (0, f"{file}\n", "")
    seen = frames(file)
    assert len(seen) == 19
    assert all((a != b).any() for a, b in pairwise(seen))
    assert all((frame[0, 0] == 255).all() for frame in seen), "the paper is white"
    before = file.read_bytes()
    run_command("plot", "wavefront", FIG_3, "--animate", file)
    assert file.read_bytes() == before, "the same film is another file"
    assert [each.name for each in file.parent.iterdir()] == ["film.gif"]


def test_a_film_of_a_window_in_the_dark(tmp_path: Path) -> None:
    file = tmp_path / "film.gif"
    run_command(
        "plot", "wavefront", FIG_3, "--animate", file, "--cycles", "4:9", "--theme", "dark",
        "--colour", "value",
    )  # fmt: skip
    seen = frames(file)
    assert len(seen) == 5
    assert all(frame[0, 0].max() < 50 for frame in seen)


def test_long_films_skip_cycles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 4 frames of 19 cycles: every fifth."""
    monkeypatch.setattr(animation, "MOST_FRAMES", 4)
    file = tmp_path / "film.gif"
    told = run_command("plot", "wavefront", FIG_3, "--animate", file)
    assert told == (0, f"{file}\n", "")
    assert len(frames(file)) == 4


@needs_ffmpeg
def test_an_mp4_is_read_by_ffprobe(tmp_path: Path) -> None:
    file = tmp_path / "film.mp4"
    assert run_command("plot", "wavefront", FIG_3, "--animate", file) == (0, f"{file}\n", "")
    asked = ["ffprobe", "-v", "error", "-count_frames", "-show_streams", "-of", "json", file]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    (stream,) = json.loads(told.stdout)["streams"]
    assert (stream["codec_name"], stream["nb_read_frames"]) == ("h264", "19")
    assert [each.name for each in tmp_path.iterdir()] == ["film.mp4"]


def test_without_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "film.mp4"
    assert refused("plot", "wavefront", FIG_3, "--animate", file) == (
        f"{file}: needs ffmpeg, which is not installed; a .gif needs nothing"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_ffmpeg_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\necho 'no such coder' >&2\nexit 1\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    file = tmp_path / "film.mp4"
    assert refused("plot", "wavefront", FIG_3, "--animate", file) == (
        "ffmpeg could not write the film (no such coder)"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["ffmpeg"]


def test_films_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "film.gif"
    assert refused("plot", "wavefront", FIG_3, "--animate", tmp_path / "film.avi") == (
        f"{tmp_path / 'film.avi'}: is no film; needed a file that ends in .gif or .mp4"
    )
    assert refused("plot", "wavefront", FIG_3, "--animate", file, "--out", "a.png") == (
        "--out: means nothing with --animate, which names its own file"
    )
    assert refused("plot", "wavefront", FIG_3, "--animate", file, "--format", "svg") == (
        "--format: means nothing with --animate, which names its own file"
    )
    dram = ("--set", "workload.home=dram", "--set", "compile.via=dram")
    assert refused("plot", "wavefront", FIG_3, *dram, "--animate", file) == (
        f"{file}: the array multiplies nothing in this run; needed a run to film"
    )
    (tmp_path / "folder.gif").mkdir()
    assert refused("plot", "wavefront", FIG_3, "--animate", tmp_path / "folder.gif") == (
        f"{tmp_path / 'folder.gif'}: is a folder; needed the name of a file to write"
    )
    assert refused("plot", "wavefront", FIG_3, "--animate", file, "--cycles", "40:50") == (
        "--cycles: cycles 40 to 49 lie outside the run, which has cycles 0 to 18"
    )
    assert not file.exists()
