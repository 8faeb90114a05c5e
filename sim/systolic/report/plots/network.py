"""The views of networks: use of links on the topology, distance and time, and a timeline of links.

Not here: what is observed of a run (`systolic.run.system_views` gives it as a `NetworkPlot`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from systolic.errors import SystolicError
from systolic.report.paper import style
from systolic.report.plots.look import Look
from systolic.report.plots.sheet import (
    FOOT,
    HEAD,
    MARGIN,
    NAMES,
    NOTES_START,
    WIDTH,
    Sheet,
)
from systolic.report.summary.wording import number, percent, plural
from systolic.spans import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap

MOST_LINKS, MOST_HOPS = 48, 200_000
TALLEST, WIDEST = 8.5, WIDTH - 2 * MARGIN - 1.2
LANE, SCALE = 0.2, 0.75
ASIDE = 0.09
"""How far beside the line between two nodes a directed link is drawn, in distances of nodes."""


class LinkUse(NamedTuple):
    """A link: where it is, and the shares of the run in which it sends and is blocked.

    source, target: numbers of nodes. intervals: (first, stop, label) in ticks.
    """

    name: str
    source: int
    target: int
    sending: float
    blocked: float
    intervals: Sequence[tuple[int, int, str]]


class PlottedHop(NamedTuple):
    """A packet on a link. ticks: its first flit is sent, its last flit is sent, its head is there,
    all of it is there. carries: what it has a colour for.
    """

    link: int
    first: int
    sent: int
    head: int
    there: int
    carries: int


@dataclass(frozen=True, eq=False)
class NetworkPlot:
    """A network, and a run of it if there is one.

    said: the line below the title. nodes: names; places: x and y of each, y downwards; hosts: the
    numbers of those that are no switches. ticks: of the run.
    """

    said: str
    nodes: Sequence[str]
    places: Sequence[tuple[float, float]]
    hosts: frozenset[int]
    links: Sequence[LinkUse]
    ticks: int = 0
    hops: Sequence[PlottedHop] = ()


def draw_topology(plot: NetworkPlot, look: Look) -> Sheet:
    """Return the sheet of a topology without a run."""
    return _map(plot, look, with_use=False)


def draw_link_use(plot: NetworkPlot, look: Look) -> Sheet:
    """Return the sheet: each link of the topology in the colour of its use."""
    return _map(plot, look, with_use=True)


def _map(plot: NetworkPlot, look: Look, *, with_use: bool) -> Sheet:
    from matplotlib.patches import FancyArrowPatch

    xs, ys = zip(*plot.places, strict=True)
    wide, high = max(xs) - min(xs) + 1.4, max(ys) - min(ys) + 1.4
    unit = min(WIDEST / wide, TALLEST / high, 1.3)
    sheet = Sheet(look, HEAD + high * unit + FOOT, plot.said)
    axes = sheet.axes(HEAD, high * unit, MARGIN, wide * unit)
    axes.set_xlim(min(xs) - 0.7, max(xs) + 0.7)
    axes.set_ylim(max(ys) + 0.7, min(ys) - 0.7)
    colours = use_colours(look)
    busiest = max((link.sending for link in plot.links), default=0.0)
    lines = max(0.5, min(2.6, unit * 2.4))
    heads = 3.0 + 5.0 * min(1.0, unit)
    radius = 0.17 if unit > 0.45 else 0.24
    for link in sorted(plot.links, key=lambda each: each.sending):
        ends, bend = _ends(plot, link, radius)
        colour = colours(link.sending) if with_use else look.theme.muted
        axes.add_patch(
            FancyArrowPatch(
                *ends,
                arrowstyle="-|>",
                connectionstyle=f"arc3,rad={bend}",
                mutation_scale=heads,
                linewidth=lines if with_use else lines / 2,
                color=colour,
                shrinkA=0,
                shrinkB=0,
            )
        )
    _draw_nodes(axes, plot, look, unit, radius)
    if with_use:
        _scale(sheet, colours, busiest)
    return sheet


def _ends(
    plot: NetworkPlot, link: LinkUse, radius: float
) -> tuple[tuple[tuple[float, float], tuple[float, float]], float]:
    """Return where a link begins and ends, and its bend: links of more than a step go around."""
    (x0, y0), (x1, y1) = plot.places[link.source], plot.places[link.target]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    is_straight = not _passes_nodes(plot, link)
    aside = ASIDE if is_straight else 0.0
    begin = x0 + dx * radius - dy * aside, y0 + dy * radius + dx * aside
    end = x1 - dx * radius - dy * aside, y1 - dy * radius + dx * aside
    return (begin, end), 0.0 if is_straight else 0.12 + 0.6 / length


def _passes_nodes(plot: NetworkPlot, link: LinkUse) -> bool:
    """Return whether a straight line would run through another node, as around a torus."""
    (x0, y0), (x1, y1) = plot.places[link.source], plot.places[link.target]
    return (x0 == x1 and abs(y1 - y0) > 1.7) or (y0 == y1 and abs(x1 - x0) > 1.7)


def _draw_nodes(axes: Axes, plot: NetworkPlot, look: Look, unit: float, radius: float) -> None:
    from matplotlib.patches import Circle, Rectangle

    for place, (x, y) in enumerate(plot.places):
        is_host = place in plot.hosts
        patch = (
            Circle((x, y), radius)
            if is_host
            else Rectangle((x - radius, y - radius), 2 * radius, 2 * radius)
        )
        patch.set(facecolor=look.theme.faint, edgecolor=look.theme.ink, linewidth=0.6)
        axes.add_patch(patch)
        name = plot.nodes[place]
        size = min(style.SMALL, unit * 2 * radius * 72 / (0.62 * max(2, len(name))))
        if size >= 3.5:
            axes.text(
                x, y, name, ha="center", va="center", fontsize=size, color=look.theme.ink,
                parse_math=False,
            )  # fmt: skip


def use_colours(look: Look) -> LinearSegmentedColormap:
    """Return the colours of a link from idle to always sending: from the paper's to strong."""
    from matplotlib.colors import LinearSegmentedColormap

    stops = [look.theme.hair, look.theme.activities["streaming"], look.theme.activities["stalled"]]
    return LinearSegmentedColormap.from_list("use", stops)


def _scale(sheet: Sheet, colours: LinearSegmentedColormap, busiest: float) -> None:
    axes = sheet.axes(1.08, 0.12, WIDTH - MARGIN - 2.6, 2.6)
    axes.imshow([[n / 255 for n in range(256)]], aspect="auto", cmap=colours, extent=(0, 100, 0, 1))
    sheet.text(
        WIDTH - MARGIN - 2.6, 0.86, "share of cycles in which a link sends", fontsize=style.SMALL
    )
    sheet.text(WIDTH - MARGIN - 2.6, 1.24, "0 %", fontsize=style.SMALL, color=sheet.theme.muted)
    sheet.text(
        WIDTH - MARGIN, 1.24, "100 %", fontsize=style.SMALL, color=sheet.theme.muted, ha="right"
    )
    sheet.text(
        WIDTH - MARGIN - 1.3, 1.24, f"busiest {percent(round(busiest * 10_000), 10_000)}",
        fontsize=style.SMALL, color=sheet.theme.muted, ha="center",
    )  # fmt: skip


def draw_distance(plot: NetworkPlot, look: Look) -> Sheet:
    """Return the sheet: where every packet is when; time runs down the page's width.

    Along a ring a packet is a band from the node that sends it to the node that gets it: its left
    edge is the head, its right edge the tail. Chunks of a collective have colours of their own.
    """
    shown = look.shown(plot.ticks)
    hops = [hop for hop in plot.hops if hop.first < shown.stop and hop.there >= shown.first]
    if len(hops) > MOST_HOPS:
        raise SystolicError(
            f"the picture would have {number(len(hops))} packets on links, and shows at most "
            f"{number(MOST_HOPS)}; fewer cycles show less"
        )
    order = _rows(plot)
    lane = min(0.5, max(0.09, 6.0 / max(1, len(order))))
    height = lane * (len(order) - 1) + 0.4
    sheet = Sheet(look, HEAD + height + SCALE, _said(plot, shown))
    axes = sheet.axes(HEAD, height, MARGIN + NAMES, WIDTH - 2 * MARGIN - NAMES)
    axes.set_ylim(len(order) - 1 + 0.2 / lane, -0.2 / lane)  # bands around a ring are cut here
    for place, node in enumerate(order):
        axes.axhline(place, color=look.theme.hair, linewidth=0.6, zorder=0)
        _lane_name(sheet, plot.nodes[node], HEAD + 0.2 + place * lane, lane)
    _draw_hops(axes, plot, look, hops, order)
    _ticks_scale(axes, shown)
    return sheet


def _draw_hops(
    axes: Axes, plot: NetworkPlot, look: Look, hops: Sequence[PlottedHop], order: Sequence[int]
) -> None:
    """Draw packets: as bands between rows if all links lead to a next row, else where they arrive.

    From the last row the next is the first, as around a ring: the band leaves below, and comes in
    above. Where links go far, bands would cover one another; so the row of a node has a line for
    each link into it, with a bar while a packet arrives by it.
    """
    from matplotlib.collections import PolyCollection

    row = {node: place for place, node in enumerate(order)}
    ends = [(row[link.source], row[link.target]) for link in plot.links]
    used = sorted({hop.link for hop in hops})
    is_line = all(abs(ends[n][0] - ends[n][1]) in (1, len(order) - 1) for n in used)
    lanes = _lanes(plot, used)
    shapes, fills = [], []
    for hop in hops:
        y0, y1 = ends[hop.link]
        if is_line:
            found = _bands(hop, y0, y1, len(order))
        else:
            lane, count = lanes[hop.link]
            found = [_bar(hop, y1 - 0.4 + 0.8 * lane / count, 0.8 / count)]
        shapes += found
        fills += [look.theme.series_colour(hop.carries)] * len(found)
    axes.add_collection(PolyCollection(shapes, facecolors=fills, edgecolors="none", alpha=0.9))


Outline = list[tuple[float, float]]


def _lanes(plot: NetworkPlot, used: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return by link its place among the links into its target that are used, and their count."""
    into: dict[int, list[int]] = {}
    for link in used:
        into.setdefault(plot.links[link].target, []).append(link)
    return {link: (n, len(each)) for each in into.values() for n, link in enumerate(each)}


def _bands(hop: PlottedHop, y0: int, y1: int, count: int) -> list[Outline]:
    if count > 2 and abs(y1 - y0) == count - 1:
        way = 1 if y1 < y0 else -1
        return [_band(hop, y0, y0 + way), _band(hop, y1 - way, y1)]
    return [_band(hop, y0, y1)]


def _bar(hop: PlottedHop, top: float, high: float) -> Outline:
    bottom = top + high
    return [(hop.head, top), (hop.there, top), (hop.there, bottom), (hop.head, bottom)]


def _band(hop: PlottedHop, y0: float, y1: float) -> Outline:
    return [(hop.first, y0), (hop.sent, y0), (hop.there, y1), (hop.head, y1)]


def _rows(plot: NetworkPlot) -> list[int]:
    """Return the nodes from top to bottom: as a picture of the topology has them, or by number."""
    ordered = sorted(range(len(plot.nodes)), key=lambda node: (plot.places[node][1], node))
    return ordered if len(plot.hosts) < len(plot.nodes) else list(range(len(plot.nodes)))


def draw_link_timeline(plot: NetworkPlot, look: Look) -> Sheet:
    """Return the sheet: a lane for each link, with what it sends and when credits hold it up."""
    shown = look.shown(plot.ticks)
    active = [link for link in plot.links if link.sending or link.blocked]
    if not active:
        raise SystolicError("no link sends anything in this run")
    lanes = sorted(active, key=lambda link: -link.sending - link.blocked)[:MOST_LINKS]
    lanes = [link for link in active if link in lanes]
    theme = look.theme
    legend = [
        (theme.activities["streaming"], "sending"),
        (theme.activities["stalled"], "blocked by credit"),
    ]
    rest = len(active) - len(lanes)
    left_out = f"; {plural(rest, 'less busy link')} left out" if rest else ""
    sheet = Sheet(look, HEAD + len(lanes) * LANE + SCALE, _said(plot, shown) + left_out, legend)
    axes = sheet.axes(HEAD, len(lanes) * LANE)
    axes.set_ylim(len(lanes), 0)
    for place, link in enumerate(lanes):
        _lane_name(sheet, link.name, HEAD + (place + 0.5) * LANE, LANE)
        axes.axhspan(place + 0.12, place + 0.88, color=theme.faint, linewidth=0, zorder=0)
        for colour, spans in _spans(link, shown, look).items():
            axes.broken_barh(spans, (place + 0.12, 0.76), facecolors=colour, linewidth=0)
        sheet.text(
            NOTES_START,
            HEAD + (place + 0.5) * LANE,
            f"{percent(round(link.sending * 10_000), 10_000)} sending, "
            f"{percent(round(link.blocked * 10_000), 10_000)} blocked",
            fontsize=style.SMALL,
            color=theme.muted,
            va="center",
        )
    _ticks_scale(axes, shown)
    return sheet


def _spans(link: LinkUse, shown: Interval, look: Look) -> Mapping[str, list[tuple[float, float]]]:
    """Return by colour the first tick and length of what a lane shows, joined where they touch."""
    activities = look.theme.activities
    found: dict[str, list[tuple[float, float]]] = {}
    for first, stop, label in link.intervals:
        if label == "idle" or first >= shown.stop or stop <= shown.first:
            continue
        spans = found.setdefault(activities["streaming" if label == "sending" else "stalled"], [])
        if spans and sum(spans[-1]) == first:
            spans[-1] = spans[-1][0], stop - spans[-1][0]
        else:
            spans.append((first, stop - first))
    return found


def _lane_name(sheet: Sheet, name: str, middle: float, lane: float) -> None:
    size = min(style.SMALL, lane * 72 * 0.8)
    if size >= 4:
        sheet.text(
            MARGIN + NAMES - 0.1, middle, name, fontsize=size, color=sheet.theme.muted, ha="right",
            va="center",
        )  # fmt: skip


def _said(plot: NetworkPlot, shown: Interval) -> str:
    text = f"{plot.said}; {plural(plot.ticks, 'cycle')}"
    if shown != Interval(0, max(plot.ticks, 1)):
        text += f"; shown are cycles {number(shown.first)} to {number(shown.stop - 1)}"
    return text


def _ticks_scale(axes: Axes, shown: Interval) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(shown.first, shown.stop)
    axes.xaxis.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value))))
    axes.set_xlabel("cycle")
