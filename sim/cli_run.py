"""`systolic run`: a run, its table on the screen, its files in a folder."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.config import RunConfig
from sim.config.files import replacing, write_text
from sim.run import RunResult, execute
from sim.workload import Transpose, write_npy

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

# Pictures of more words than this show no more than fewer do, and each word is kept.
PICTURE_ELEMENTS = 1 << 19
PICTURE_KINDS = ("psum_write", "read", "write")
PATIENCE_SECONDS = 1.0


def run_and_report(
    config: RunConfig, out: Path, *, as_json: bool, plots: bool, values: bool = True
) -> None:
    """Run, print (the table, or exactly summary.json), and write the files to the folder `out`."""
    picture = plots and _elements(config) <= PICTURE_ELEMENTS
    with Progress(config.name) as progress:
        kinds = PICTURE_KINDS if picture else ()
        result = execute(config, kinds=kinds, grid=picture, progress=progress, values=values)
    text = summary_text(result.summary)
    _write_results(result, text, out)
    if as_json:
        sys.stdout.write(text)
    else:
        _print(result, out)
    if plots:  # last, since it takes longest and the figures are there to be read meanwhile
        _write_picture(result, out)


def _elements(config: RunConfig) -> int:
    """Return the elements a picture would have to show: of a product, its multiplications."""
    work = config.operation
    if isinstance(work, Transpose):
        return work.shape.num_elements()
    shapes = [work.shape(name) for op in work.operations for name in (*op.inputs, op.output)]
    return max(shape.num_elements() for shape in shapes) * 8


def summary_text(summary: dict[str, Any]) -> str:
    """Return the text of summary.json."""
    return json.dumps(summary, indent=2, allow_nan=False) + "\n"


def _write_results(result: RunResult, text: str, out: Path) -> None:
    if result.result is not None:
        with replacing(out / "result.npy") as path:
            write_npy(path, result.result)
    write_text(out / "summary.json", text)


def _write_picture(result: RunResult, out: Path) -> None:
    from sim.report.wavefront import plot_wavefront

    with replacing(out / "wavefront.png") as path:
        plot_wavefront(result.chip, result.trace, path, title=result.summary["run"])


def _print(result: RunResult, out: Path) -> None:
    from sim.report.table import print_summary

    screen = console()
    print_summary(result.summary, screen)
    say_where(screen, out)


def console() -> Console:
    """Return the screen, without colours of rich's own choice."""
    from rich.console import Console

    return Console(highlight=False)


def say_where(screen: Console, out: Path) -> None:
    """Print where the files of a run are."""
    from rich.text import Text

    screen.print(Text(f"  written to {out}/", style="dim"), soft_wrap=True)


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
