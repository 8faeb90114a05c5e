"""The wavefront as a film: a frame for each cycle, the grid large, every unit below it.

GIF files are written by Pillow, which matplotlib brings; MP4 files by ffmpeg, where it is.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.progress import Progress
from systolic.report.paper import style
from systolic.report.paper.dark import darkened
from systolic.report.paper.page import Page
from systolic.report.summary.wording import number
from systolic.report.wavefront.bands import CycleAxis, is_small
from systolic.report.wavefront.draw_bands import Frame, draw_cycle_axis
from systolic.report.wavefront.draw_panels import (
    HEAD,
    STRIP,
    Measures,
    PanelStyle,
    draw_panel,
    measure_one,
)
from systolic.report.wavefront.draw_units import draw_units, units_height
from systolic.report.wavefront.legend import draw_legend
from systolic.report.wavefront.manner import PLAIN, Manner
from systolic.report.wavefront.moments import moments, window
from systolic.report.wavefront.painter import Painter
from systolic.report.wavefront.panels import Scene
from systolic.spans import Interval
from systolic.trace.records import Trace
from systolic.writing import replacing

FilmFormat = Literal["gif", "mp4"]
FILM_FORMATS: tuple[FilmFormat, ...] = get_args(FilmFormat)
FramePixels: TypeAlias = npt.NDArray[np.uint8]

WIDTH, MARGIN, NAMES, TOP, FOOT = 8.0, 0.45, 1.25, 1.3, 0.45
GRID, LARGEST_CELL = 4.2, 0.8
COLOURS, PALETTE_OF, NEAR = 255, 6, 8
"""Colours of a GIF, how many of its frames they are taken from, and what is taken for the paper."""
MOST_FRAMES = 200
"""The most frames of a film: in a longer window every second, third, ... cycle is a frame."""
LENGTH_MS, LEAST_MS, MOST_MS = 16_000, 60, 600
"""How long a film takes, and the shortest and longest time of a frame."""


@dataclass(frozen=True, eq=False)
class Film:
    """A film of some cycles of a run."""

    chip: Chip
    trace: Trace
    title: str
    manner: Manner = PLAIN
    cycles: Interval | None = None
    is_dark: bool = False

    def save(self, path: Path, progress: Progress = lambda done, total: None) -> None:
        """Write the film, whole or not at all; its format follows from the file's ending.

        Raises SystolicError if nothing was multiplied, or ffmpeg is needed and not there.
        """
        form = path.suffix.lower().removeprefix(".")
        if form == "mp4":
            require_ffmpeg(path)
        when = moments(self.chip, self.trace)
        if when is None:
            raise SystolicError(
                f"{path}: the array multiplies nothing in this run; needed a run to film"
            )
        shown = self.cycles or window(self.trace, when)
        cycles = range(shown.first, shown.stop, -(-shown.count // MOST_FRAMES))
        studio = self._studio(shown)
        milliseconds = int(np.clip(LENGTH_MS // len(cycles), LEAST_MS, MOST_MS))
        with replacing(path) as partial:
            frames = _told(cycles, studio.frame, progress)
            if form == "mp4":
                _write_mp4(partial, frames, milliseconds)
            else:
                seen = [studio.frame(cycle) for cycle in cycles[:: -(-len(cycles) // PALETTE_OF)]]
                _write_gif(partial, frames, milliseconds, seen)

    def _studio(self, shown: Interval) -> Studio:
        colouring = self.manner.colouring
        scene = Scene.of(self.chip, self.trace, shown, colouring)
        cells = is_small(self.chip, CycleAxis(0, 1))
        look = PanelStyle(cells, Painter.of(colouring, self.trace.grid))
        array = self.chip.pe_array
        width = STRIP + GRID * min(1.0, array.cols / array.rows)
        size = measure_one(scene.panel(shown.first), GRID if cells else width, cells, LARGEST_CELL)
        return Studio(self, scene, shown, size, look)


@dataclass(frozen=True, eq=False)
class Studio:
    """What all frames of a film have in common."""

    film: Film
    scene: Scene
    shown: Interval
    size: Measures
    look: PanelStyle

    def frame(self, cycle: int) -> FramePixels:
        """Return the frame of a cycle."""
        trace = self.film.trace
        page = Page(WIDTH, self._height)
        page.pixels[...] = self._still
        text = f"cycle {number(cycle)} of {number(trace.cycles())}"
        page.text(MARGIN, 0.62, text, style.HEADING, weight="bold")
        left = (WIDTH - self.size.strip - self.size.grid[0]) / 2
        draw_panel(page, (left, TOP - HEAD), self.scene.panel(cycle), self.size, self.look)
        bottom, x = self._units + units_height(trace), self._units_of(page).x(cycle + 0.5)
        page.upright(x, self._units - 0.06, bottom, style.INK, 1.0)
        return darkened(page.pixels) if self.film.is_dark else page.pixels

    @cached_property
    def _still(self) -> FramePixels:
        """Return the pixels that are the same in every frame."""
        page = Page(WIDTH, self._height)
        page.text(MARGIN, 0.25, self.film.title, style.TITLE - 3, weight="bold")
        draw_legend(page, WIDTH - MARGIN, self.look.painter)
        units = self._units_of(page)
        draw_units(units, self._units, self.film.trace)
        draw_cycle_axis(units, self._units + units_height(self.film.trace) + 0.08)
        return page.pixels

    def _units_of(self, page: Page) -> Frame:
        axis = CycleAxis(self.shown.first, self.shown.stop)
        return Frame(page, axis, MARGIN + NAMES, WIDTH - 2 * MARGIN - NAMES)

    @property
    def _units(self) -> float:
        """Return where the units begin."""
        return TOP + self.size.height - HEAD + 0.3

    @property
    def _height(self) -> float:
        return _even(self._units + units_height(self.film.trace) + FOOT)


def _told(
    cycles: range, frame: Callable[[int], FramePixels], progress: Progress
) -> Iterator[FramePixels]:
    for done, cycle in enumerate(cycles):
        yield frame(cycle)
        progress(done + 1, len(cycles))


def film_format(path: Path) -> FilmFormat:
    """Return the format that the ending of a file names; SystolicError if it names none."""
    ending = path.suffix.lower().removeprefix(".")
    for known in FILM_FORMATS:
        if ending == known:
            return known
    listed = " or ".join(f".{known}" for known in FILM_FORMATS)
    raise SystolicError(f"{path}: is no film; needed a file that ends in {listed}")


def require_ffmpeg(path: Path) -> None:
    """Raise SystolicError if there is no ffmpeg."""
    if shutil.which("ffmpeg") is None:
        raise SystolicError(f"{path}: needs ffmpeg, which is not installed; a .gif needs nothing")


def _even(inches: float) -> float:
    """Return a height that is an even number of pixels, as MP4 files need."""
    return 2 * round(inches * style.DPI / 2) / style.DPI


def _write_gif(
    path: Path, frames: Iterator[FramePixels], milliseconds: int, seen: Sequence[FramePixels]
) -> None:
    """Write a GIF; seen: frames from which its colours are taken, since finding them is slow."""
    from PIL import Image

    small = np.concatenate([frame[::2, ::2] for frame in seen])
    found = np.array(Image.fromarray(small).quantize(COLOURS).getpalette()).reshape(-1, 3)
    paper = seen[0][0, 0].astype(int)
    found[np.abs(found - paper).max(axis=1) < NEAR] = paper  # Pillow confuses near colours
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.vstack([found[:COLOURS], paper]).ravel().tolist())
    images = (
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in frames
    )
    first = next(images)
    first.save(
        path, format="GIF", save_all=True, append_images=images, duration=milliseconds, loop=0
    )


def _write_mp4(path: Path, frames: Iterator[FramePixels], milliseconds: int) -> None:
    first = next(frames)
    height, width, _ = first.shape
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
    target = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    same = ["-fflags", "+bitexact", "-flags", "+bitexact", "-map_metadata", "-1"]
    rate = ["-r", f"1000/{milliseconds}"]
    command = ["ffmpeg", "-y", "-loglevel", "error", *source, *rate, "-i", "-", *target, *same]
    with subprocess.Popen(
        [*command, "-f", "mp4", str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            process.stdin.write(first.tobytes())
            for frame in frames:
                process.stdin.write(frame.tobytes())
            process.stdin.close()
        except BrokenPipeError:
            pass  # its message says why
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
    if process.returncode:
        raise SystolicError(
            f"ffmpeg could not write the film ({said[-1] if said else 'no reason'})"
        )
