"""`systolic plot`: a view of a run as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from systolic.cli.options import (
    ChipName,
    Inputs,
    NoCheck,
    Overrides,
    Shapes,
    WorkOptions,
    is_number,
    is_program,
    of_name,
    of_option,
)
from systolic.errors import SystolicError, listed, perhaps, printable, shortened
from systolic.reading import real_path
from systolic.spans import Interval

if TYPE_CHECKING:
    from systolic.layout import Shape
    from systolic.report.paper.saved import PictureFormat
    from systolic.report.paper.theme import ThemeName
    from systolic.report.plots.look import Look
    from systolic.report.plots.subject import PlotRun
    from systolic.report.plots.table import Plot
    from systolic.report.wavefront.manner import Manner
    from systolic.run.result import Result

Word = TypeVar("Word", bound=str)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of the work is shown: a tensor of a run file and its marked element; a core."""

    tensor: str | None
    index: str | None
    core: str


def draw_command(
    view: Annotated[str, typer.Argument(help="What to show; systolic plot --list names all.")] = "",
    work: Annotated[
        Path | None,
        typer.Argument(
            help="Run file, program or summary.json; of layout: a shape, or a run file.",
            metavar="RUN|PROGRAM|SUMMARY",
            callback=of_name,
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="File to write (default: VIEW.FORMAT)."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="png, svg or pdf (default: the file's ending, or png)."),
    ] = None,
    cycles: Annotated[
        str | None,
        typer.Option("--cycles", metavar="FIRST:STOP", help="Only from FIRST to before STOP."),
    ] = None,
    theme: Annotated[str, typer.Option("--theme", help="light or dark.")] = "light",
    arrows: Annotated[
        bool, typer.Option("--arrows", help="timeline: draw posts and the starts they let go.")
    ] = False,
    by: Annotated[
        str, typer.Option("--by", help="wavefront: lines are row, column or diagonal of PEs.")
    ] = "row",
    colour: Annotated[
        str, typer.Option("--colour", help="wavefront: colours say activity, vector or value.")
    ] = "activity",
    animate: Annotated[
        Path | None,
        typer.Option("--animate", help="wavefront: write a film, .gif or .mp4, and no picture."),
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", help='layout: mark element "2,3", or "y=2 x=3".')
    ] = None,
    tensor: Annotated[
        str | None, typer.Option("--tensor", help="layout: a tensor of the run file, by its name.")
    ] = None,
    core: Annotated[
        str, typer.Option("--core", help="Of several cores the one to show (default: core0).")
    ] = "",
    list_views: Annotated[bool, typer.Option("--list", help="Name all views.")] = False,
    chip: ChipName = None,
    inputs: Inputs = None,
    shapes: Shapes = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
) -> None:
    """Draw a view of a run, a program or a summary as PNG, SVG or PDF."""
    from systolic.cli.heartbeat import HEARTBEAT
    from systolic.run.difference import of_summaries

    if list_views:
        _list_views()
        return
    plot = _plot(view)
    if work is None:
        raise SystolicError("RUN|PROGRAM|SUMMARY: is missing; needed what is to be drawn")
    path, picture_format = _target(view, out, form)
    if animate is not None:
        path = _film_file(animate, {"--out": out, "--format": form})
    look = replace(
        _look(work, picture_format, theme, cycles, arrows=arrows), manner=_manner(by, colour)
    )
    given = {
        "cycles": cycles is not None,
        "arrows": arrows,
        "index": index is not None,
        "tensor": tensor is not None,
        "input": bool(inputs),
        "animate": animate is not None,
        "by": by != "row",
        "colour": colour != "activity",
        "core": bool(core),
    }
    _refuse_idle_options(view, plot, given)
    _require_free(path, work)
    options = WorkOptions(
        chip=chip,
        inputs=inputs,
        shapes=shapes,
        overrides=overrides,
        no_check=no_check,
        values=False,
    )
    _refuse_other_kind(view, plot, work)
    summaries = [work] if plot.given == "summary" else []
    with of_summaries(*summaries):
        subject, title = _subject(plot, view, work, options, Chosen(tensor, index, core))
    _require_shown(plot, subject, look)
    write = plot.write if animate is None else _write_film
    HEARTBEAT.at(title, "drawing")
    with of_summaries(*summaries):
        write(subject, replace(look, title=title), path)
    typer.echo(printable(str(path)))


def _list_views() -> None:
    from systolic.report.plots.table import PLOTS

    for name, each in PLOTS.items():
        typer.echo(f"{name:<14}{each.shows}")


def _film_file(path: Path, given: Mapping[str, object]) -> Path:
    """Return the file of a film; SystolicError for another ending, or with these options."""
    from systolic.report.wavefront.animation import film_format, require_ffmpeg

    for option, value in given.items():
        if value is not None:
            raise SystolicError(f"{option}: means nothing with --animate, which names its own file")
    if film_format(path) == "mp4":
        require_ffmpeg(path)
    return path


def _write_film(run: PlotRun, look: Look, path: Path) -> None:
    from systolic.cli.heartbeat import ProgressBar
    from systolic.report.plots.wavefront import film

    with ProgressBar(look.title) as progress:
        film(run, look).save(path, progress)


def _plot(view: str) -> Plot:
    from systolic.report.plots.table import PLOTS

    if view not in PLOTS:
        known = ", ".join(PLOTS)
        found = f'there is no "{shortened(view)}"' if view else "is missing"
        raise SystolicError(f"VIEW: {found} (known: {known}){perhaps(view, PLOTS)}")
    return PLOTS[view]


def _target(view: str, out: Path | None, form: str | None) -> tuple[Path, PictureFormat]:
    """Return the file, and its format: the one asked for, else what the file's ending says."""
    from systolic.report.paper.saved import PICTURE_FORMATS

    ending = out.suffix.lower().removeprefix(".") if out else ""
    wanted = form if form is not None else ending or "png"
    for known in PICTURE_FORMATS:
        if wanted == known:
            return out or Path(f"{view}.{wanted}"), known
    where = "--format" if form is not None else f"--out {out}"
    listed = ", ".join(PICTURE_FORMATS)
    raise SystolicError(
        f'{where}: there is no format "{shortened(wanted)}" (known: {listed})'
        f"{perhaps(wanted, PICTURE_FORMATS)}"
    )


def target_format(out: Path) -> PictureFormat:
    """Return the format that a file's ending names."""
    return _target("", out, None)[1]


def _look(work: Path, form: PictureFormat, theme: str, cycles: str | None, *, arrows: bool) -> Look:
    from systolic.report.plots.look import Look

    with of_option("--cycles"):
        window = None if cycles is None else _interval(cycles)
    return Look(work.stem, form, theme_named(theme), window, arrows)


def theme_named(theme: str) -> ThemeName:
    """Return the theme that --theme names."""
    from systolic.report.paper.theme import THEME_NAMES

    return _known("--theme", theme, THEME_NAMES)


def _manner(by: str, colour: str) -> Manner:
    from systolic.report.wavefront.manner import BYS, COLOURINGS, Manner

    return Manner(_known("--by", by, BYS), _known("--colour", colour, COLOURINGS))


def _known(option: str, found: str, words: Sequence[Word]) -> Word:
    """Return the word of a list that is found; SystolicError naming all if there is none."""
    for word in words:
        if found == word:
            return word
    raise SystolicError(
        f'{option}: there is no "{shortened(found)}" (known: {listed(words)})'
        f"{perhaps(found, words)}"
    )


def _interval(text: str) -> Interval:
    """Return the cycles that "4:14", "4:" or ":14" means."""
    first, colon, stop = text.partition(":")
    found = Interval(_number(first or "0", text), _number(stop or "9" * 18, text))
    if not colon or found.first >= found.stop:
        raise _no_interval(text)
    return found


def _number(digits: str, text: str) -> int:
    if not is_number(digits):
        raise _no_interval(text)
    return int(digits)


def _no_interval(text: str) -> SystolicError:
    return SystolicError(
        f'needs FIRST:STOP with FIRST before STOP, such as 4:14, found "{shortened(text)}"'
    )


def _refuse_idle_options(view: str, plot: Plot, given: Mapping[str, bool]) -> None:
    """Raise SystolicError for an option that is given and means nothing to the view."""
    for option, is_given in given.items():
        if is_given and option not in plot.takes:
            raise SystolicError(f"--{option}: means nothing to the view {view}")


def _require_free(path: Path, work: Path) -> None:
    from systolic.run.folder import require_writable

    require_writable(path)
    if real_path(path) == real_path(work):
        raise SystolicError(f"{path}: this run reads it; needed another file (--out FILE)")


def _subject(
    plot: Plot, view: str, work: Path, options: WorkOptions, chosen: Chosen
) -> tuple[Any, str]:
    """Return what the view is given, and the picture's title."""
    if plot.given == "shape":
        return _layout(work, options, chosen.tensor, chosen.index)
    if plot.given == "network":
        return _network(work, options)
    return _run_or_summary(plot, view, work, options, chosen.core)


def _require_shown(plot: Plot, subject: Any, look: Look) -> None:
    """Raise SystolicError if --cycles asks for cycles that the subject does not have."""
    if look.cycles is not None:
        with of_option("--cycles"):
            look.shown(subject.ticks if plot.given == "network" else subject.trace.cycles())


def _run_or_summary(
    plot: Plot, view: str, work: Path, options: WorkOptions, core: str
) -> tuple[Any, str]:
    """Return a run, or what a summary tells of one, and the picture's title."""
    from systolic.run.plotted import plotted, plotted_summary, shown_core

    if work.suffix.lower() == ".json" or work.is_dir():
        if plot.given != "summary":
            raise SystolicError(
                f"{work}: is a summary, which does not tell what {view} shows; "
                "needed a run file or a program"
            )
        summary = _summary(work, options)
        return plotted_summary(summary, str(work)), printable(summary["run"])
    result = _result(plot, work, options)
    at = shown_core(result, plot, core, "--core")
    return plotted(result, at), printable(result.summary["run"])


def _shape(work: Path, options: WorkOptions, tensor: str | None) -> tuple[Shape, str]:
    """Return the shape to be drawn, and its title: of a run file's tensor, or the text itself."""
    from systolic.layout import Shape

    if tensor is None and not work.is_file():
        _refuse_run_options(options, f"{work} is a shape")
        shape = Shape.parse(str(work))
        return shape, str(shape)
    from systolic.cli.explain import load_one

    if is_program(work):
        raise SystolicError(f"{work}: has no tensors with layouts; needed a run file, or a shape")
    graph = load_one(work, options).graph
    shapes = {name: graph.shape(name) for name, _ in graph.tensors}
    if tensor is None:
        names = listed(f'"{name}"' for name in shapes)
        raise SystolicError(f"--tensor: is missing; needed one of {names}")
    return shapes[_known("--tensor", tensor, tuple(shapes))], f"{tensor}: {shapes[tensor]}"


def _layout(
    work: Path, options: WorkOptions, tensor: str | None, index: str | None
) -> tuple[Any, str]:
    """Return the shape with the element to mark, as the view is given it, and the title."""
    from systolic.layout.text.index_text import read_index
    from systolic.report.views import LayoutSubject

    shape, title = _shape(work, options, tensor)
    marked = None if index is None else read_index(index, shape.rank)
    return LayoutSubject(shape, marked), title


def _refuse_other_kind(view: str, plot: Plot, work: Path) -> None:
    """Raise SystolicError for a view of networks of a run, or the other way around."""
    from systolic.report.plots.table import PLOTS
    from systolic.run.system import is_system_file

    is_system = work.suffix.lower() == ".toml" and is_system_file(work)
    if is_system and plot.given != "network":
        views = ", ".join(name for name, each in PLOTS.items() if each.given == "network")
        raise SystolicError(f"{work}: is a system file, of which {view} shows nothing ({views} do)")
    if plot.given == "network" and not is_system:
        raise SystolicError(f"{work}: is no system file, and {view} shows links of a network")


def _network(work: Path, options: WorkOptions) -> tuple[Any, str]:
    """Return a system that was run, as the view is given it, and the title."""
    from systolic.cli.run_system import system_of
    from systolic.run.system_views import system_plot

    system = system_of(work, options)
    return system_plot(system), printable(system.name)


def _result(plot: Plot, work: Path, options: WorkOptions) -> Result:
    """Run for what the view shows: times, or words and grid with their values.

    Of a run with too many elements for its values the grid has times only.
    """
    from systolic.cli.explain import load_one, timed

    if not plot.records.grid:
        return timed(work, options)
    if is_program(work):
        return _program_result(plot, work, options)
    from systolic.cli.heartbeat import ProgressBar
    from systolic.cli.run_file import picture_records
    from systolic.run.execute import run

    loaded = load_one(work, options)
    words, grid = picture_records(loaded)
    with ProgressBar(loaded.name) as progress:
        return run(loaded, kinds=words, grid=True, values=grid, progress=progress)


def _program_result(plot: Plot, work: Path, options: WorkOptions) -> Result:
    from systolic.cli.run_program import picture_elements, prepare, run_job
    from systolic.isa import Module

    job = prepare(work, options)
    elements = picture_elements(job.module) if isinstance(job.module, Module) else 0
    words = plot.records.of(elements).words
    return run_job(replace(job, values=bool(words)), words, grid=True)


def _summary(work: Path, options: WorkOptions) -> dict[str, Any]:
    from systolic.run.difference import summary_side

    _refuse_run_options(options, f"{work} is a summary")
    return dict(summary_side(work).summary)


def _refuse_run_options(options: WorkOptions, why: str) -> None:
    given = {
        "--set": options.overrides,
        "--chip": options.chip,
        "--input": options.inputs,
        "--shape": options.shapes,
        "--no-check": options.no_check,
    }
    for option, value in given.items():
        if value:
            raise SystolicError(f"{option}: is for run files and programs, and {why}")
