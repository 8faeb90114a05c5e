"""The views of `systolic plot`: a further view is a further row, and the file that draws it.

A row says what the view is given: the summary of a run (a summary.json will do), a shape, or
a whole run with what it must record besides what every run records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from systolic.report.paper.as_written import texts_as_written
from systolic.report.plots.banks import draw_banks
from systolic.report.plots.dram import draw_dram
from systolic.report.plots.layers import draw_layers
from systolic.report.plots.layout import draw_layout
from systolic.report.plots.look import Look
from systolic.report.plots.memory import draw_memory
from systolic.report.plots.network import draw_distance, draw_link_timeline, draw_link_use
from systolic.report.plots.roofline import draw_roofline
from systolic.report.plots.system import draw_links, draw_system
from systolic.report.plots.timeline import draw_timeline
from systolic.report.plots.utilisation import draw_utilisation
from systolic.report.plots.wavefront import draw_wavefront
from systolic.report.views import NO_RECORDS, WAVEFRONT, Records

Given = Literal["summary", "run", "cores", "shape", "network"]
PlotOption = Literal[
    "cycles", "arrows", "index", "by", "colour", "animate", "tensor", "input", "core"
]


class Saved(Protocol):
    """What a view returns: a picture that writes itself to a file, whole or not at all."""

    def save(self, path: Path) -> None:
        """Write the file."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A view: `draw(subject, look)` returns its sheet, which can be saved.

    shows: what it shows, in a few words. given: the subject, a PlotSummary, a PlotRun (of a chip of
    several cores for "cores"), a LayoutSubject or a NetworkPlot. takes: the options that mean
    something to it. of_a_core: of several cores it shows one at a time.
    """

    draw: Callable[[Any, Look], Saved]
    shows: str
    given: Given
    takes: tuple[PlotOption, ...] = ()
    records: Records = NO_RECORDS
    of_a_core: bool = False

    def write(self, subject: Any, look: Look, path: Path) -> None:
        """Draw the picture and write it to a file, whole or not at all."""
        with texts_as_written():
            self.draw(subject, look).save(path)


PLOTS: dict[str, Plot] = {
    "wavefront": Plot(
        draw_wavefront, "how a wave of multiplications crosses the array", "run",
        ("cycles", "by", "colour", "animate", "input", "core"), WAVEFRONT.records, of_a_core=True,
    ),
    "timeline": Plot(
        draw_timeline, "what every unit did when, and what held it back", "run",
        ("cycles", "arrows", "core"),
    ),
    "layers": Plot(draw_layers, "operations as bars, by what bounds them", "summary"),
    "utilisation": Plot(
        draw_utilisation, "what of the array the work needs, and busy units, over time", "run",
        ("cycles", "core"), of_a_core=True,
    ),
    "roofline": Plot(draw_roofline, "operations below what array and DRAM allow", "summary"),
    "memory": Plot(
        draw_memory, "what lies where in the state buffer, and how long", "run",
        ("cycles", "core"), of_a_core=True,
    ),
    "banks": Plot(
        draw_banks, "banks of both buffers in use, and who refuses whom", "run",
        ("cycles", "core"), of_a_core=True,
    ),
    "dram": Plot(
        draw_dram, "bandwidth over time, row hits by channel", "run",
        ("cycles", "core"), of_a_core=True,
    ),
    "system": Plot(
        draw_system, "cores, links and controllers of a chip on one time axis", "cores", ("cycles",)
    ),
    "links": Plot(
        draw_links, "bytes over each link and through each controller", "cores", ("cycles",)
    ),
    "layout": Plot(
        draw_layout, "where the elements of an XLA shape lie", "shape", ("index", "tensor")
    ),
    "link_use": Plot(
        draw_link_use, "how busy the links of a network are, on its topology", "network"
    ),
    "distance": Plot(
        draw_distance, "which packet of a network is where when", "network", ("cycles",)
    ),
    "link_timeline": Plot(
        draw_link_timeline, "what every link sent when, and when credits held it up", "network",
        ("cycles",),
    ),
}  # fmt: skip
