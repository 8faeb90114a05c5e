"""The summary as a table that a person reads: on 80 columns as well as on a wide terminal.

The functions take the dict of `systolic.report.summary.summarize`, and print only to the console
that they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby, islice
from math import prod
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from systolic.report.summary.layers import (
    LESS_AND_LESS,
    LONGEST_NAME,
    SHORTEST_NAME,
    has_layers,
    layers_table,
)
from systolic.report.summary.metrics import metric_lines
from systolic.report.summary.transfers import bursts_text, channels_text, runs_text, waits_text
from systolic.report.summary.transposed import transposed_texts
from systolic.report.summary.values import values_text
from systolic.report.summary.wording import number, percent, plural, time_text

BAR_CELLS = 16
UNLIMITED = 1 << 16
"""The columns that every table has room for."""
MOST_ARRAYS = 8
"""The most inputs or outputs that are listed; a network's weights would fill the screen."""
FIRST_ARRAYS = 4
MOST_REASONS = 4
"""How many reasons of lost cycles are named."""
MOST_NUMBERED = 2
"""How many operations are named that take places by numbers."""
BUSY = "streaming"
UNCHECKED = (
    "skipped: a race may end otherwise on another chip or engine; systolic lint lists what it finds"
)
EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """Print what a run did, where each unit's time went, and whether the result is right."""
    console.print()
    console.print(_headline(summary))
    console.print(_facts(summary))
    if has_layers(summary):
        console.print(Whole(_layers(summary, console)), crop=False)
    console.print(Whole(_units(summary, console)), crop=False)
    if "cores" in summary:
        console.print(Whole(_cores(summary)), crop=False)
    if summary["stalls"]:
        console.print(Whole(_stalls(summary)), crop=False)
    if "values" in summary:
        console.print(_values(summary["values"]))
    console.print()


def _headline(summary: Mapping[str, Any]) -> Text:
    return Text.assemble(
        (f"  {summary['run']}", "bold"),
        (f"  on {summary['chip']}, {summary['engine']} engine", "dim"),
    )


def _facts(summary: Mapping[str, Any]) -> Padding:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(
        "length",
        f"[bold]{number(summary['cycles'])} cycles[/bold], {time_text(summary['time_ns'])}",
    )
    _times(summary, table)
    _work(summary, table)
    for name, line in metric_lines(summary["metrics"]) if "metrics" in summary else ():
        table.add_row(name, Text(line))
    _moved(summary, table)
    return Padding(table, (1, 0, 1, 2))


def _times(summary: Mapping[str, Any], table: Table) -> None:
    """Add rows on what took the cycles: the bound, the array, operations, transposes."""
    if "bound" in summary:
        table.add_row("bound", Text(bound_text(summary)))
    if reach := summary.get("array_reach"):
        table.add_row("array", Text(reach_text(reach), "yellow"))
    if summary.get("busy"):
        table.add_row("busy", Text(busy_text(summary)))
    if not has_layers(summary):
        for operation in summary.get("operations", ()):
            table.add_row(Text(operation["name"]), Text(operation_text(operation)))
            if lost := lost_text(operation):
                table.add_row("lost", Text(lost))
    if text := any_numbers_text(summary):
        table.add_row("cycles", Text(text))
    for row, text in enumerate(transposed_texts(summary)):
        table.add_row("" if row else "transposed", Text(text))


def _work(summary: Mapping[str, Any], table: Table) -> None:
    """Add rows on what was done: its size, the tensors and their places, images, the program."""
    if "blocks" in summary:
        blocks, sub_blocks = summary["blocks"], summary["sub_blocks"]
        table.add_row("work", f"{plural(blocks, 'block')}, {plural(sub_blocks, 'sub-block')}")
    if "layouts" in summary:
        table.add_row("layout", Text(layouts_text(summary["layouts"])))
    else:  # instead of layouts, the types and shapes of the arrays
        for kind in ("inputs", "outputs"):
            if arrays := summary.get(kind):
                table.add_row(kind, Text(arrays_text(arrays)))
    for row, (name, place) in enumerate(summary.get("on_chip", {}).items()):
        table.add_row("" if row else "on chip", Text(place_text(name, place)))
    if "images_per_second" in summary:
        table.add_row("images", f"{number(round(summary['images_per_second']))} per second")
    if "accuracy" in summary:
        table.add_row("accuracy", f"{100 * summary['accuracy']:.2f} % of the images that count")
    counts = [f"{number(count)} {name}" for name, count in summary["instructions"].items()]
    table.add_row("program", ", ".join(counts) or "no instructions")
    if summary.get("checker") == "skipped":
        table.add_row("checker", Text(UNCHECKED, "yellow"))


def _moved(summary: Mapping[str, Any], table: Table) -> None:
    """Add rows on the bytes that the queues moved, and on DRAM's channels and banks."""
    if traffic := summary.get("traffic"):
        table.add_row("traffic", Text(traffic_text(traffic)))
    moved = summary.get("transfers")
    if not moved or not moved["copies"]:
        return
    table.add_row("moved", Text(runs_text(moved)))
    if dram := moved.get("dram"):
        table.add_row("dram", Text(bursts_text(dram)))
        queue = next(iter(dram["waits"]))  # all have one clock
        table.add_row("", Text(channels_text(dram, summary["units"][queue]["total"])))
        table.add_row("", Text(waits_text(dram)))


def traffic_text(traffic: Mapping[str, int]) -> str:
    """Return the bytes that copies have sent, received and written."""
    sent, received, written = traffic.values()
    return f"{number(sent)} bytes sent, {number(received)} received, {number(written)} written"


def layouts_text(layouts: Mapping[str, str]) -> str:
    """Return the layouts of source and result, and the blocks as tiles of the source."""
    text = f"{layouts['source']} to {layouts['result']}"
    return f"{text}, blocks {layouts['blocks']}" if layouts.get("blocks") else text


def place_text(name: str, place: Mapping[str, Any]) -> str:
    """Return where a tensor lies on the chip: ``a s8[4,6]{1,0:T(4,6)}, partition 0, byte 64``."""
    return f"{name} {place['layout']}, partition {place['partition']}, byte {place['byte']}"


def arrays_text(arrays: Mapping[str, Mapping[str, Any]]) -> str:
    """Return names, types, shapes and files: ``a f32[4,4] in a.npy, b s8[3] in b.npy``.

    Of more than MOST_ARRAYS arrays the first are named; of the others their number, and the
    elements of all arrays together.
    """
    named = len(arrays) if len(arrays) <= MOST_ARRAYS else FIRST_ARRAYS
    text = ", ".join(
        f"{name} {array['type']}[{','.join(map(str, array['shape']))}]"
        + (f" in {array['file']}" if array.get("file") else "")
        for name, array in islice(arrays.items(), named)
    )
    if len(arrays) == named:
        return text
    elements = sum(prod(array["shape"]) for array in arrays.values())
    return f"{text}, and {number(len(arrays) - named)} more: {number(elements)} elements together"


def bound_text(summary: Mapping[str, Any]) -> str:
    """Return the best possible length, what binds it, and how far above it the run stayed."""
    cycles, best = summary["cycles"], summary["bound"]["cycles"]
    if not best:
        return f"0 cycles ({summary['bound']['why']})"
    apart = abs(cycles - best)
    way = "above" if cycles > best else "below"
    distance = f"the run is {number(apart)} ({percent(apart, best)}) {way} it"
    if not apart:
        distance = "reached"
    return f"{plural(best, 'cycle')} ({summary['bound']['why']}): {distance}"


def reach_text(reach: Mapping[str, int]) -> str:
    """Return which part of an array is used that is larger than its state buffer."""
    return (
        f"{reach['used_rows']} of {reach['rows']} rows and {reach['used_cols']} of {reach['cols']} "
        f"columns are used: the state buffer has {plural(reach['partitions'], 'partition')}"
    )


def busy_text(summary: Mapping[str, Any]) -> str:
    """Return for how many cycles each unit must be busy, and the share of the run that it is."""
    units = summary["units"]
    parts = [
        f"{name} {number(cycles)} ({percent(cycles, units[name]['total'])})"
        for name, cycles in summary["busy"].items()
    ]
    return f"at least {', '.join(parts)}"


def operation_text(operation: Mapping[str, Any]) -> str:
    """Return how long an operation was under way, and how far that is above its bound."""
    cycles, bound = operation["cycles"], operation["bound"]
    if not cycles:
        return f"{operation['op']}, without an instruction of its own"
    text = f"{operation['op']}, under way for {plural(cycles, 'cycle')}"
    if not bound["cycles"]:
        return text
    best = f"{number(bound['cycles'])} ({bound['why']})"
    # It shared loads with other operations, or started from results that they had left.
    if cycles < bound["cycles"]:
        return f"{text}; alone it needs {best}"
    return f"{text}, {percent(cycles - bound['cycles'], bound['cycles'])} above the {best} it needs"


def any_numbers_text(summary: Mapping[str, Any]) -> str:
    """Return for which numbers of places the cycles are given; "" if no operation takes any."""
    operations = summary.get("operations", ())
    taken = [(each["name"], each.get("any_numbers_in")) for each in operations]
    found = [f"{name} by {tensor}" for name, tensor in taken if tensor]
    if not found:
        return ""
    left = len(found) - MOST_NUMBERED
    more = f" and {plural(left, 'other')}" if left > 0 else ""
    return (
        f"are for any numbers of places ({', '.join(found[:MOST_NUMBERED])}{more}): they never "
        f"depend on values"
    )


def lost_text(operation: Mapping[str, Any]) -> str:
    """Return what the array's cycles are lost to that an operation's multiply-adds do not need."""
    at_it = operation.get("array") or {}
    lost = dict(at_it.get("lost", {}))
    parts = [
        f"{reason} {number(cycles)} ({percent(cycles, at_it['cycles'])})"
        for reason, cycles in islice(lost.items(), MOST_REASONS)
    ]
    if others := sum(islice(lost.values(), MOST_REASONS, None)):
        parts.append(f"others {number(others)}")
    return f"{', '.join(parts)}, of the array's {plural(at_it['cycles'], 'cycle')}" if parts else ""


def _layers(summary: Mapping[str, Any], console: Console) -> Padding:
    """Return the table of the operations, with as many columns as there is room for.

    Where there is too little room for the fewest columns, names are shortened.
    """
    for without in LESS_AND_LESS:
        table = Padding(layers_table(summary, without), (0, 0, 1, 2))
        over = _width(table, console, console.options) - console.width
        if over <= 0:
            return table
    longest = max(len(each["name"]) for each in summary["operations"])
    letters = max(SHORTEST_NAME, min(longest, LONGEST_NAME) - over)
    return Padding(layers_table(summary, LESS_AND_LESS[-1], letters), (0, 0, 1, 2))


def _units(summary: Mapping[str, Any], console: Console) -> Padding:
    """Return the table of the units, with bars if there is room for them."""
    table = _units_table(summary, console.options.ascii_only, bars=True)
    if _width(table, console, console.options) > console.width:
        table = _units_table(summary, console.options.ascii_only, bars=False)
    return table


def _units_table(summary: Mapping[str, Any], plain: bool, *, bars: bool) -> Padding:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("unit", no_wrap=True)
    table.add_column("busy, and why not", no_wrap=True)
    table.add_column("cycles", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    if bars:
        table.add_column("", no_wrap=True)
    shown = len(table.columns) - 1
    for (idle, _), group in groupby(summary["units"].items(), key=_idle_family):
        units = list(group)
        if idle:
            table.add_row(_span([name for name, _ in units]), Text("idle", "dim"))
            continue
        for name, unit in units:
            for place, (label, cycles) in enumerate(reasons(unit)):
                cells = _reason(label, cycles, unit["total"], plain)
                table.add_row("" if place else name, *cells[:shown])
    return Padding(table, (0, 0, 1, 2))


class Whole:
    """A table that is as wide as its words and numbers even if the screen is narrower."""

    def __init__(self, table: Padding | Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = max(options.max_width, _width(self._table, console, options))
        yield from console.render(self._table, options.update(width=wide))


def _width(table: Padding | Table, console: Console, options: ConsoleOptions) -> int:
    """Return how many columns a table takes if nothing of it is cut."""
    return Measurement.get(console, options.update(width=UNLIMITED), table).maximum


def _reason(label: str, cycles: int, total: int, plain: bool) -> tuple[Text, str, str, Text]:
    colour = "cyan" if label == BUSY else "red" if label.startswith("stalled") else "dim"
    return (
        Text(label, "" if colour == "dim" else colour),
        number(cycles),
        percent(cycles, total),
        Text(bar(cycles / total, plain), colour),
    )


def _idle_family(item: tuple[str, Mapping[str, Any]]) -> tuple[bool, str]:
    """Return the key by which units are grouped.

    Neighbours of one kind that did nothing share a line: "dma0 to dma1".
    """
    name, unit = item
    idle = set(unit["labels"]) <= {"idle"}
    return idle, name.rstrip("0123456789") if idle else ""


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def reasons(unit: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return labels and cycles: first the busy cycles, then the others, the most cycles first."""
    found = [(label, cycles) for label, cycles in unit["labels"].items() if cycles]
    return sorted(found, key=lambda item: (item[0] != BUSY, -item[1], item[0]))


def bar(share: float, plain: bool = False) -> str:
    """Return a bar of BAR_CELLS characters, in eighths of a character unless `plain`."""
    if plain:
        return "#" * round(share * BAR_CELLS)
    eighths = round(share * BAR_CELLS * 8)
    return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _cores(summary: Mapping[str, Any]) -> Padding:
    """Return the table of the cores: how much of the run each was busy, or waited for what."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("core", no_wrap=True)
    for name in ("busy", "waiting for link", "for DRAM", "for another core", "idle"):
        table.add_column(name, justify="right", no_wrap=True)
    for core, cycles in summary["cores"].items():
        total = sum(cycles.values())
        table.add_row(core, *(percent(each, total) for each in cycles.values()))
    return Padding(table, (0, 0, 1, 2))


def _stalls(summary: Mapping[str, Any]) -> Padding:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("refused port", "bank", "held back", "in favour of"):
        table.add_column(name, no_wrap=True)
    table.add_column("cycles", justify="right", no_wrap=True)
    for s in summary["stalls"]:
        port = f"{s['buffer']} {s['direction']}"
        table.add_row(port, str(s["bank"]), s["unit"], s["winner"], number(s["cycles"]))
    return Padding(table, (0, 0, 1, 2))


def _values(values: Mapping[str, Any]) -> Padding:
    text, good = values_text(values)
    colour = "bold red" if not good else "yellow" if values.get("out_of_range") else "green"
    return Padding(Text(text, colour), (0, 0, 0, 2))
