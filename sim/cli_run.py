"""`systolic run`: a run or a sweep, its table on the screen, its files in a folder."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from sim.config import RunConfig, SweepPoint, SweepTable, expand
from sim.config.files import Writer, replacing
from sim.provenance import provenance
from sim.run import RunResult, execute
from sim.run_folder import PICTURE, RESULT, SUMMARY, RunFolder, npy_name
from sim.verdict import require_right
from sim.workload import Transpose, write_npy

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

Array = npt.NDArray[Any]
Accept: TypeAlias = Callable[[Mapping[str, Any]], str]

# Of a point, these follow from the sweep's own and from "vary".
OF_THE_WHOLE_SWEEP = ("version", "config", "overrides", "files", "options")

# Pictures of more words than this show no more than fewer do, and each word is kept.
PICTURE_ELEMENTS = 1 << 19
PICTURE_KINDS = ("psum_write", "read", "write")
PATIENCE_SECONDS = 1.0


def run_and_report(
    config: RunConfig,
    out: Path,
    *,
    as_json: bool,
    plots: bool,
    values: bool = True,
    accept: Accept = lambda summary: "",
) -> None:
    """Run, print (the table, or exactly summary.json), and write the files to the folder `out`.

    accept: given the summary before anything is written, raises SystolicError or returns a line to
    print. Raises ResultError, when all is written, if the result is wrong.
    """
    folder = RunFolder(out)
    folder.check(_file_names(config, plots=plots, values=values), _data_files(config))
    if config.sweep:
        _sweep(config, folder, as_json=as_json, plots=plots, accept=accept)
        return
    picture = plots and _elements(config) <= PICTURE_ELEMENTS
    with Progress(config.name) as progress:
        kinds = PICTURE_KINDS if picture else ()
        result = execute(config, kinds=kinds, grid=picture, progress=progress, values=values)
    arrays = named_files(output_files(config), result.outputs, result.summary)
    note = accept(result.summary)
    folder.replace({SUMMARY: summary_writer(result.summary), **arrays})
    if as_json:
        sys.stdout.write(summary_text(result.summary))
    else:
        print_table(result.summary, out, note)
    if plots:  # last, since it takes longest and the figures are there to be read meanwhile
        _write_picture(result, folder)
    require_right(result.summary)


def output_files(config: RunConfig) -> dict[str, str]:
    """Return the file of each output: result.npy of a lone operation, NAME.npy of a graph's."""
    work = config.operation
    if isinstance(work, Transpose):
        return {"result": RESULT}
    if config.workload.ops:
        return {name: npy_name(name) for name in work.outputs}
    (only,) = work.outputs
    return {only: RESULT}


def named_files(
    names: Mapping[str, str], outputs: Mapping[str, Array], summary: dict[str, Any]
) -> dict[str, Writer]:
    """Return a writer for the file of each output, and name the files in the summary."""
    for name in outputs:
        summary["outputs"][name]["file"] = names[name]
    return {names[name]: partial(write_npy, array=array) for name, array in outputs.items()}


def summary_writer(summary: Mapping[str, Any]) -> Writer:
    """Return a writer of summary.json."""
    return lambda path: path.write_text(summary_text(summary), encoding="utf-8")


def _file_names(config: RunConfig, *, plots: bool, values: bool) -> list[str]:
    """Return the names of the files a run may write."""
    if config.sweep:
        return [SUMMARY, *(["comparison.png", "sweep.png"] if plots else [])]
    arrays = output_files(config).values() if values else ()
    return [SUMMARY, *arrays, *([PICTURE] if plots else [])]


def _data_files(config: RunConfig) -> list[Path]:
    sources = [config.data, *(source for _, source in config.sources)]
    return [config.path, *(source.path for source in sources if source.kind == "file")]


def _elements(config: RunConfig) -> int:
    """Return the elements a picture would have to show: of a product, its multiplications."""
    work = config.operation
    if isinstance(work, Transpose):
        return work.shape.num_elements()
    shapes = [work.shape(name) for op in work.operations for name in (*op.inputs, op.output)]
    return max(shape.num_elements() for shape in shapes) * 8


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return the text of summary.json."""
    return json.dumps(summary, indent=2, allow_nan=False) + "\n"


def _write_picture(result: RunResult, folder: RunFolder) -> None:
    from sim.report.wavefront import plot_wavefront

    title = result.summary["run"]
    folder.add(PICTURE, lambda path: plot_wavefront(result.chip, result.trace, path, title=title))


def print_table(summary: Mapping[str, Any], out: Path, note: str = "") -> None:
    """Print a run's table, a note if there is one, and where its files are."""
    from rich.text import Text

    from sim.report.table import print_summary

    screen = console()
    print_summary(summary, screen)
    if note:
        screen.print(Text(f"  {note}", "green"), soft_wrap=True)
    say_where(screen, out)


def console() -> Console:
    """Return the screen, without colours of rich's own choice."""
    from rich.console import Console

    return Console(highlight=False)


def say_where(screen: Console, out: Path) -> None:
    """Print where the files of a run are."""
    from rich.text import Text

    screen.print(Text(f"  written to {out}/", style="dim"), soft_wrap=True)


def _sweep(
    config: RunConfig, folder: RunFolder, *, as_json: bool, plots: bool, accept: Accept
) -> None:
    """Run every point; "points" of summary.json has their summaries."""
    points = list(expand(config))
    summaries = []
    with Progress(config.name) as progress:
        for done, point in enumerate(points):
            summaries.append(_point_summary(point))
            progress(done + 1, len(points))
    origin = provenance(config, config.engine, values=True)
    summary = {"run": config.name, **origin, "points": summaries}
    note = accept(summary)
    folder.replace({SUMMARY: summary_writer(summary)})
    if plots:
        _plot_sweeps(config, summaries, folder.path)
    if as_json:
        sys.stdout.write(summary_text(summary))
    else:
        _print_sweep(config, summaries, folder.path, note)
    for found in summaries:
        require_right(found)


def _print_sweep(config: RunConfig, summaries: list[dict[str, Any]], out: Path, note: str) -> None:
    from rich.text import Text

    from sim.cli_sweep import print_sweeps

    screen = console()
    print_sweeps(config, summaries, screen)
    if note:
        screen.print(Text(f"  {note}", "green"), soft_wrap=True)
    say_where(screen, out)


def _plot_sweeps(config: RunConfig, summaries: list[dict[str, Any]], out: Path) -> None:
    """Draw the sweeps that ran both ways as comparison.png, the others as sweep.png."""
    from sim.report.comparison import plot_comparison
    from sim.report.sweep import plot_sweeps

    title = config.description or config.name
    both = [sweep.name for sweep in config.sweep if {"pe", "dram"} == _ways(sweep)]
    if both:
        notes = {sweep.name: sweep.description for sweep in config.sweep}
        points = [point for point in summaries if point["sweep"] in both]
        with replacing(out / "comparison.png") as path:
            plot_comparison(points, path, title=title, notes=notes)
    others = [
        (sweep.name, sweep.description, [s for s in summaries if s["sweep"] == sweep.name])
        for sweep in config.sweep
        if sweep.name not in both
    ]
    if others:
        with replacing(out / "sweep.png") as path:
            plot_sweeps(others, path, title=title)


def _ways(sweep: SweepTable) -> set[Any]:
    return set(sweep.vary.get("compile.via", ()))


def _point_summary(point: SweepPoint) -> dict[str, Any]:
    found = execute(point.config).summary
    kept = {key: value for key, value in found.items() if key not in OF_THE_WHOLE_SWEEP}
    return {"sweep": point.sweep, "vary": point.labels, **kept}


class Progress:
    """A progress bar on stderr, shown on a terminal only and after a second."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` instructions (or points) are done."""
        if self._bar is None:
            if time.monotonic() - self._started < PATIENCE_SECONDS or not sys.stderr.isatty():
                return
            self._bar = _start_bar(self._name)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)


def _start_bar(name: str) -> Bar:
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(console=Console(stderr=True), transient=True)
    bar.add_task(name, total=None)
    bar.start()
    return bar
