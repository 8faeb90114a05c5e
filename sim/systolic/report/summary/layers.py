"""The operations of a graph, a row for each: the table on the screen, and layers.csv.

The functions take the dict of `systolic.report.summary.summarize` with its `operations`. Nothing is
measured here (`systolic.run.operations`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from rich.table import Table
from rich.text import Text

from systolic.errors import shortened
from systolic.report.summary.wording import number, percent, ratio_text
from systolic.writing import csv_row

TOTAL = "total"
LayerColumn = Literal[
    "operation", "op", "cycles", "array time", "utilisation", "turns", "lost most to", "bound",
    "x bound", "bound by", "DRAM bytes", "waits most for",
]  # fmt: skip
TO_THE_LEFT: frozenset[LayerColumn] = frozenset(
    {"operation", "op", "bound by", "lost most to", "waits most for"}
)
LONGEST_NAME, SHORTEST_NAME = 60, 9
ENOUGH = 0.8
"""A share of the array. If an operation uses less, the table says to what the rest is lost."""
NOTABLE = 0.001
"""The least part of the run that is worth a word of what it is lost to."""
_NARROW: frozenset[LayerColumn] = frozenset(
    {"bound by", "cycles", "bound", "waits most for", "turns", "DRAM bytes"}
)
LESS_AND_LESS: tuple[frozenset[LayerColumn], ...] = (
    frozenset(),
    frozenset({"bound by"}),
    frozenset({"bound by", "cycles"}),
    frozenset({"bound by", "cycles", "bound"}),
    frozenset({"bound by", "cycles", "bound", "waits most for"}),
    _NARROW,
    _NARROW | {"op"},
    _NARROW | {"op", "lost most to"},
)
"""Sets of columns to leave out. The first set with which the table fits the screen is taken."""
FIXED = (
    "name", "op", "cycles", "multiply_adds", "utilisation", "bound_cycles", "bound_why",
    "dram_bytes", "on_chip_bytes", "streamed_cycles", "turned_cycles", "array_cycles",
    "array_utilisation",
)  # fmt: skip
"""The first columns of layers.csv.

Behind them is one for each reason of a stall, then one for each reason of lost cycles.
"""
LOST = "lost to "


class LayerRow(NamedTuple):
    """What the table says of an operation, or of the whole run (`op` is empty).

    taken: the cycles in which the array is at it. Utilisation and lost cycles are of these. Where
    nothing is multiplied, all are of those under way. against_bound: the table holds it against
    its bound. If the array's time is divided, it does so with products only.
    """

    name: str
    op: str
    cycles: int
    taken: int
    utilisation: float
    bound_cycles: int
    bound_why: str
    dram_bytes: int
    stalls: Mapping[str, int]
    streamed_cycles: int
    turned_cycles: int
    lost: Mapping[str, int]
    against_bound: bool = True


def has_layers(summary: Mapping[str, Any]) -> bool:
    """Return whether a run has several operations, and so a table and a file of them."""
    return len(summary.get("operations", ())) > 1


def layers_table(
    summary: Mapping[str, Any], without: Collection[LayerColumn], letters: int = LONGEST_NAME
) -> Table:
    """Return a row for each operation, and a row for the run, without some of the columns.

    letters: longer names of operations are shown without their middle.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    divided = is_divided(summary)
    left_out = {*without} if divided else {*without, "array time"} - {"cycles"}
    notable = NOTABLE * summary["cycles"] if divided else 0
    rows = [_row(each, notable, divided=divided) for each in summary["operations"]]
    cells = [_cells(row) for row in (*rows, _total(summary))]
    shown = [column for column in cells[0] if column not in left_out]
    for column in shown:
        table.add_column(column, justify="left" if column in TO_THE_LEFT else "right", no_wrap=True)
    for place, each in enumerate(cells):
        texts = [Text(_named(each, column, letters)) for column in shown]
        table.add_row(*texts, style="bold" if place == len(cells) - 1 else "")
    return table


def _named(cells: Mapping[LayerColumn, str], column: LayerColumn, letters: int) -> str:
    return shortened(cells[column], letters) if column == "operation" else cells[column]


def is_divided(summary: Mapping[str, Any]) -> bool:
    """Return whether the array's time is divided among operations: some of them are products.

    Summaries of version 0.1 do not say it.
    """
    return any(_at_it(each)["cycles"] for each in summary["operations"])


def _at_it(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = operation.get("array", {"cycles": 0, "utilisation": 0.0, "lost": {}})
    return found


def _row(operation: Mapping[str, Any], notable: float, *, divided: bool) -> LayerRow:
    """Return the row of an operation. notable: the fewest cycles whose loss is told."""
    bound, (streamed, turned, lost) = operation["bound"], _array_time(operation)
    taken, utilisation = operation["cycles"], operation["utilisation"]
    if divided:
        at_it = _at_it(operation)
        taken, utilisation, lost = at_it["cycles"], at_it["utilisation"], at_it["lost"]
    return LayerRow(
        operation["name"],
        operation["op"],
        operation["cycles"],
        taken,
        utilisation,
        bound["cycles"],
        bound["why"],
        operation["dram_bytes"],
        operation["stalls"],
        streamed,
        turned,
        lost if taken >= notable else {},
        operation["multiply_adds"] > 0 or not divided,
    )


def _array_time(record: Mapping[str, Any]) -> tuple[int, int, Mapping[str, int]]:
    """Return where the array's time goes; of a summary of version 0.1 nothing is known."""
    return record.get("streamed_cycles", 0), record.get("turned_cycles", 0), record.get("lost", {})


def _total(summary: Mapping[str, Any]) -> LayerRow:
    """Return the row of the run: operations overlap, so its cycles are not the sum of theirs."""
    operations, cycles = summary["operations"], summary["cycles"]
    useful = sum(each["utilisation"] * each["cycles"] for each in operations)
    bound = summary["bound"]
    return LayerRow(
        TOTAL,
        "",
        cycles,
        cycles,
        useful / cycles if cycles else 0.0,
        bound["cycles"],
        bound["why"],
        summary["dram_bytes"],
        all_stalls(summary),
        *_array_time(summary),
    )


def all_stalls(summary: Mapping[str, Any]) -> dict[str, int]:
    """Return the stalls of all operations by reason, the costliest first."""
    cycles = Counter[str]()
    for each in summary["operations"]:
        cycles.update(each["stalls"])
    return dict(sorted(cycles.items(), key=lambda item: (-item[1], item[0])))


def _cells(row: LayerRow) -> dict[LayerColumn, str]:
    """Return the text of each column; an operation without an instruction has no time to tell."""
    idle = not row.cycles
    return {
        "operation": row.name,
        "op": row.op,
        "cycles": number(row.cycles),
        "array time": number(row.taken),
        "utilisation": percent(row.utilisation, 1) if row.taken else "",
        "turns": _turns(row),
        "lost most to": _lost(row),
        "bound": "" if idle else number(row.bound_cycles),
        "x bound": _times_bound(row),
        "bound by": "" if idle else row.bound_why,
        "DRAM bytes": "" if idle else number(row.dram_bytes),
        "waits most for": _worst(row.stalls),
    }


def _times_bound(row: LayerRow) -> str:
    """Return how many times its bound an operation takes, if that means something."""
    if not row.taken or not row.bound_cycles or not row.against_bound:
        return ""
    return ratio_text(row.taken / row.bound_cycles)


def _turns(row: LayerRow) -> str:
    """Return the share of turns in what the array streams for an operation."""
    return percent(row.turned_cycles, row.streamed_cycles) if row.turned_cycles else ""


def _lost(row: LayerRow) -> str:
    """Return what most of the cycles that are not useful are lost to, and their share of all."""
    if not row.taken or not row.lost or row.utilisation >= ENOUGH:
        return ""
    reason = max(row.lost, key=lambda each: row.lost[each])
    return f"{reason} {percent(row.lost[reason], row.taken)}"


def _worst(stalls: Mapping[str, int]) -> str:
    """Return what took the most cycles: ``dma1 2,926``, or ``port of dma 30`` for refused ports."""
    if not stalls:
        return ""
    reason = max(stalls, key=lambda each: stalls[each])
    what = reason.removeprefix("waiting for ").replace("stalled by ", "port of ")
    return f"{what} {number(stalls[reason])}"


def layers_csv(summary: Mapping[str, Any]) -> str:
    """Return the text of layers.csv: a row for each operation, a column for each reason."""
    reasons = sorted(all_stalls(summary))
    lost = sorted({reason for each in summary["operations"] for reason in each.get("lost", ())})
    head = [*FIXED, *reasons, *(LOST + reason for reason in lost)]
    return "".join(map(csv_row, (head, *_csv_rows(summary, reasons, lost))))


def _csv_rows(
    summary: Mapping[str, Any], reasons: list[str], lost: list[str]
) -> Iterator[list[Any]]:
    for each in summary["operations"]:
        bound = {"bound_cycles": each["bound"]["cycles"], "bound_why": each["bound"]["why"]}
        at_it = {f"array_{key}": value for key, value in _at_it(each).items()}
        values = {"streamed_cycles": 0, "turned_cycles": 0, **each, **bound, **at_it}
        yield [
            *(values[name] for name in FIXED),
            *(each["stalls"].get(reason, 0) for reason in reasons),
            *(each.get("lost", {}).get(reason, 0) for reason in lost),
        ]
