"""The run of a run file for `systolic run`: its table on the screen, its files in a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from systolic.arrays import Array
from systolic.cli.heartbeat import HEARTBEAT, ProgressBar
from systolic.cli.options import WHEN_REFUSED
from systolic.config import RunConfig
from systolic.errors import CompileError, InterruptedRunError, SystolicError, printable
from systolic.report.summary.layers import has_layers, layers_csv
from systolic.run.execute import run
from systolic.run.folder import LAYERS, PICTURE, RESULT, SUMMARY, RunFolder, npy_name
from systolic.run.result import Result
from systolic.run.verdict import require_right
from systolic.workload import write_npy
from systolic.writing import Writer

if TYPE_CHECKING:
    from rich.console import Console

Accept: TypeAlias = Callable[[Mapping[str, Any]], str]


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

    accept: a function that is given the summary before anything is written. It raises
    SystolicError, or returns a line to print. Raises ResultError, after all files are written, if
    the result is wrong.
    """
    folder = RunFolder(out)
    folder.check(_file_names(config, plots=plots, values=values), data_files(config))
    words, grid = picture_records(config) if plots else ((), False)
    try:
        with ProgressBar(config.name) as progress:
            result = _run(config, kinds=words, grid=grid, progress=progress, values=values)
    except KeyboardInterrupt:
        text = f"{config.name}: interrupted; no file was written"
        raise InterruptedRunError(text) from None
    report(result, output_files(config), folder, as_json=as_json, plots=plots, accept=accept)
    require_right(result.summary)


def _run(config: RunConfig, *, progress: ProgressBar, **settings: Any) -> Result:
    """Return the result of a run; the error names all operations that the chip refuses."""
    try:
        return run(config, progress=progress, **settings)
    except CompileError:
        from systolic.run.refusals import all_refused

        if (said := all_refused(config, progress)) is None:
            raise
        raise SystolicError(f"{said}; {WHEN_REFUSED}") from None


def report(
    result: Result,
    names: Mapping[str, str],
    folder: RunFolder,
    *,
    as_json: bool,
    plots: bool,
    accept: Accept,
) -> None:
    """Print a result (the table, or exactly summary.json), and write its files to the folder.

    names: the file of each output. accept: as for `run_and_report`.
    """
    HEARTBEAT.stage("writing")
    summary = with_file_names(result.summary, names, result.outputs)
    note = accept(summary)
    tables = {LAYERS: layers_writer(summary)} if has_layers(summary) else {}
    arrays = array_writers(names, result.outputs)
    folder.replace({SUMMARY: summary_writer(summary), **tables, **arrays})
    if as_json:
        sys.stdout.write(summary_text(summary))
    else:
        print_table(_printable(summary), folder.path, note)
    if plots:  # last: the table can be read while the picture is drawn
        HEARTBEAT.stage("drawing")
        _write_picture(result, folder)


def output_files(config: RunConfig) -> dict[str, str]:
    """Return the file of each output: result.npy of a lone operation, NAME.npy of a graph's."""
    outputs = config.graph.outputs
    if config.lone_operation is None:
        return {name: npy_name(name) for name in outputs}
    return dict.fromkeys(outputs, RESULT)


def with_file_names(
    summary: Mapping[str, Any], names: Mapping[str, str], outputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Return a summary that names the file of each output that there is an array of."""
    files = {name: {"file": names[name]} for name in outputs}
    records = {
        name: {**record, **files.get(name, {})} for name, record in summary["outputs"].items()
    }
    return {**summary, "outputs": records}


def array_writers(names: Mapping[str, str], outputs: Mapping[str, Array]) -> dict[str, Writer]:
    """Return a writer for the file of each output, by the file's name."""
    return {names[name]: partial(write_npy, array=array) for name, array in outputs.items()}


def summary_writer(summary: Mapping[str, Any]) -> Writer:
    """Return a writer of summary.json."""
    return lambda path: path.write_text(summary_text(summary), encoding="utf-8")


def layers_writer(summary: Mapping[str, Any]) -> Writer:
    """Return a writer of layers.csv."""
    return lambda path: path.write_text(layers_csv(summary), encoding="utf-8")


def _file_names(config: RunConfig, *, plots: bool, values: bool) -> list[str]:
    """Return the names of the files a run may write."""
    arrays = output_files(config).values() if values else ()
    tables = [LAYERS] if len(config.graph.operations) > 1 else []
    return [SUMMARY, *tables, *arrays, *([PICTURE] if plots else [])]


def data_files(config: RunConfig) -> list[Path]:
    """Return the files a run reads: its run file and its data."""
    sources = config.sources.values()
    return [config.path, *(source.path for source in sources if source.kind == "file")]


def _elements(config: RunConfig) -> int:
    """Return how many elements a picture would have to show: for a product, multiplications."""
    shapes = [tensor.shape for _, tensor in config.graph.tensors]
    if config.is_lone_transpose:
        return shapes[0].num_elements()
    return max(shape.num_elements() for shape in shapes) * 8


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return the text of summary.json."""
    return json.dumps(summary, indent=2, allow_nan=False) + "\n"


def picture_records(config: RunConfig) -> tuple[tuple[str, ...], bool]:
    """Return the kinds of words that the picture shows, and whether it shows the grid."""
    from systolic.report.views import WAVEFRONT

    records = WAVEFRONT.records.of(_elements(config))
    return records.words, records.grid


def _write_picture(result: Result, folder: RunFolder) -> None:
    from systolic.report.views import WAVEFRONT, RunSubject

    subject, title = RunSubject(result.chip, result.trace), printable(result.summary["run"])
    folder.add(PICTURE, lambda path: WAVEFRONT.draw(subject, path, title))


def _printable(value: Any) -> Any:
    """Return a summary with control characters escaped, since its names come from a file."""
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return printable(value) if isinstance(value, str) else value


def print_table(summary: Mapping[str, Any], out: Path, note: str = "") -> None:
    """Print a run's table, a note if there is one, and where its files are."""
    from rich.text import Text

    from systolic.report.summary.table import print_summary

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
