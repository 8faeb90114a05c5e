"""The pictures that commands write beside their results: subject, and records that each needs.

A command that draws asks this table, so a further view is a further row and the file that draws it.
The drawing functions import what they need when they are called: matplotlib takes longer to load
than most runs take. Not here: how pictures are drawn, the names of their files, and the views of
`systolic plot` (`report.plots.table`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from systolic.hw.spec import Chip
from systolic.layout import Shape
from systolic.report.wavefront.manner import MOST_ELEMENTS
from systolic.trace.records import Trace
from systolic.trace.words import KINDS

if TYPE_CHECKING:
    from systolic.report.sweeps.pairs import PointRow

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Records:
    """What a run must record for a view, besides what every run records.

    words: the kinds of words that moved. grid: whether the operands of the array are kept.
    most_elements: a run with more elements records nothing of this, because its picture could not
    show them; None for no limit.
    """

    words: tuple[str, ...] = ()
    grid: bool = False
    most_elements: int | None = None

    def __post_init__(self) -> None:
        unknown = set(self.words) - set(KINDS)
        if unknown:
            raise ValueError(f"unknown word kinds {sorted(unknown)}")

    def of(self, elements: int) -> Records:
        """Return what to record of a run with that many elements: these records, or none."""
        few = self.most_elements is None or elements <= self.most_elements
        return self if few else NO_RECORDS


NO_RECORDS = Records()


@dataclass(frozen=True, slots=True)
class View(Generic[Subject]):
    """A picture: `write(subject, path, title)` draws it into a file, whole or not at all."""

    write: Callable[[Subject, Path, str], None]
    records: Records = NO_RECORDS

    def draw(self, subject: Subject, path: Path, title: str) -> None:
        """Write the picture; texts of users stand in it as they are written."""
        from systolic.report.paper.as_written import texts_as_written

        with texts_as_written():
            self.write(subject, path, title)


@dataclass(frozen=True, slots=True)
class RunSubject:
    """One run: the chip and what was recorded."""

    chip: Chip
    trace: Trace


@dataclass(frozen=True, slots=True)
class LayoutSubject:
    """A shape, and the element to mark. With an empty title the shape's text is the title."""

    shape: Shape
    index: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class SweepSubject:
    """Sweeps: the name, description and points of each; zips: by name, keys that go together."""

    sweeps: Sequence[tuple[str, str, Sequence[PointRow]]]
    zips: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonSubject:
    """Points that ran both through the array and through DRAM, and a note by name of sweep."""

    points: Sequence[PointRow]
    notes: Mapping[str, str] = field(default_factory=dict)


def _wavefront(run: RunSubject, path: Path, title: str) -> None:
    from systolic.report.wavefront.picture import plot_wavefront

    plot_wavefront(run.chip, run.trace, path, title=title)


def _timeline(run: RunSubject, path: Path, title: str) -> None:
    from systolic.report.wavefront.timeline import plot_timeline

    plot_timeline(run.chip, run.trace, path, title=title)


def _layout(layout: LayoutSubject, path: Path, title: str) -> None:
    from systolic.report.layout_picture import save_layout_picture

    save_layout_picture(layout.shape, path, title, layout.index)


def _sweep(subject: SweepSubject, path: Path, title: str) -> None:
    from systolic.report.sweeps.pictures import plot_sweeps

    plot_sweeps(subject.sweeps, path, title=title, zips=subject.zips)


def _comparison(subject: ComparisonSubject, path: Path, title: str) -> None:
    from systolic.report.sweeps.comparison import plot_comparison

    plot_comparison(subject.points, path, title=title, notes=subject.notes)


WAVEFRONT = View(
    _wavefront, Records(("psum_write", "read", "write"), True, most_elements=MOST_ELEMENTS)
)
TIMELINE = View(_timeline)
LAYOUT = View(_layout)
SWEEP = View(_sweep)
COMPARISON = View(_comparison)

VIEWS: dict[str, View[Any]] = {
    "wavefront": WAVEFRONT,
    "timeline": TIMELINE,
    "layout": LAYOUT,
    "sweep": SWEEP,
    "comparison": COMPARISON,
}
