"""``systolic layout``: what a layout is, where an element lies, what changing the layout costs.

Plain functions make the facts and the tables; ``layout_command`` is the command. Not here:
arithmetic (``systolic.layout``), drawing (``systolic.report.layout_picture``).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from systolic.compiler.ir.on_chip.chip_tiles import block_rows
from systolic.errors import SystolicError, perhaps
from systolic.layout import (
    BufferGeometry,
    LayoutError,
    Placement,
    RelayoutPlan,
    Shape,
    in_rows,
    place_in_dram,
    place_in_result_buffer,
    place_in_state_buffer,
    relayout,
)
from systolic.layout.text.hlo_line import shape_in_line
from systolic.layout.text.index_text import read_index, read_numbers
from systolic.report.summary.table import Whole
from systolic.report.views import LAYOUT, LayoutSubject

BUFFERS = ("state_buffer", "result_buffer", "dram")
SMALL = 256
"""The most places whose memory order is listed, and the most rows of a placement's table."""

MOST_PLACED = 1_000_000
"""The most elements whose placement ``--json`` lists."""


def layout_command(
    shape: Annotated[
        str,
        typer.Argument(
            help='A shape, e.g. "bf16[33,200]{1,0:T(8,128)(2,1)}", or a line of HLO text.'
        ),
    ],
    *,
    index: Annotated[
        str | None,
        typer.Option("--index", help='Where element "2,3", or "y=2 x=3", lies in memory.'),
    ] = None,
    at: Annotated[int | None, typer.Option("--at", help="Which element lies at an offset.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="The cost of copying to this shape.")
    ] = None,
    buffer: Annotated[
        str | None, typer.Option("--buffer", help="state_buffer, result_buffer or dram.")
    ] = None,
    chip: Annotated[
        str | None,
        typer.Option("--chip", help="The chip, a name or file, whose buffers are meant."),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option("--block", help='Rows,columns of a block of a shape without tiles: "128,64".'),
    ] = None,
    padded_dimensions: Annotated[
        str | None,
        typer.Option("--padded-dimensions", help='Widths to pad to before tiling: "3,5".'),
    ] = None,
    padding_value: Annotated[
        float | None, typer.Option("--padding-value", help="What that padding holds (default: 0).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write a picture of the layout.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain an XLA shape: sizes, padding, memory order, placement, relayout cost, a picture."""
    parsed = _padded(Shape.parse(shape_in_line(shape)), padded_dimensions, padding_value)
    element = None if index is None else read_index(index, parsed.rank)
    facts = layout_facts(parsed, index=element, at=at)
    placement = None
    if buffer is not None:
        placement = chip_placement(parsed, buffer, chip, block)
        most = MOST_PLACED if as_json else SMALL
        facts["placement"] = placement_facts(placement, element, most)
    plan = None if to is None else relayout(parsed, _target(parsed, to))
    if plan is not None:
        facts["relayout"] = relayout_facts(plan)
    refused = None if plot is None else _plot(facts, parsed, plot)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(facts, parsed, placement, plan)
    if refused is not None:  # the other options have been answered by now
        raise refused


def _plot(facts: dict[str, Any], shape: Shape, path: Path) -> SystolicError | None:
    """Draw the picture around the element of ``facts`` and add to the facts what it shows.

    Returns the error that says why there is no picture; None if there is one.
    """
    # Imported here, because matplotlib takes long to load.
    from systolic.report.layout_picture import picture_window

    try:
        window = picture_window(shape, facts["index"])
        LAYOUT.draw(LayoutSubject(shape, facts["index"]), path, str(shape))
    except SystolicError as refused:
        return refused
    facts["picture"] = str(path)
    facts["window"] = {
        name: {"first": extent.first, "stop": extent.stop, "of": extent.size}
        for name, extent in (("rows", window.rows), ("columns", window.columns))
    }
    return None


# -- facts: the plain data that --json prints ------------------------------------------------------


def layout_facts(
    shape: Shape, *, index: tuple[int, ...] | None = None, at: int | None = None
) -> dict[str, Any]:
    """Return sizes of a shape, and the element that was asked for by its index or its offset.

    Both ``index`` and ``offset`` of that element are in the facts: the one is given, the other
    computed. Both are None if no element was asked for; ``index`` is None if the offset is padding.
    """
    if index is not None and at is not None:
        raise LayoutError("either --index or --at can be asked for, found both")
    offset = at if index is None else shape.linear_index(index)
    found = index if at is None else shape.from_linear_index(at)
    return {
        "shape": str(shape),
        "physical_dims": list(shape.physical_dims()),
        "elements": shape.num_elements(),
        "padded_elements": shape.padded_elements(),
        "bytes": shape.size_bytes(),
        "xla_array_size": shape.xla_array_size(),
        "index": None if found is None else list(found),
        "offset": offset,
    }


def relayout_facts(plan: RelayoutPlan) -> dict[str, Any]:
    """Return the cost of a copy plan: its bytes, and the contiguous runs that hold them."""
    runs = plan.run_count
    return {
        "to": str(plan.target),
        "bytes": plan.size_bytes,
        "runs": runs,
        "elements_per_run": plan.elements / runs if runs else 0.0,
    }


def placement_facts(
    placement: Placement, index: tuple[int, ...] | None, most: int = MOST_PLACED
) -> dict[str, Any]:
    """Return where elements are: the one at ``index``, or else the first ``most`` of all.

    ``left_out`` counts the elements that are not listed.
    """
    dims, total = placement.shape.dims, placement.shape.num_elements()
    chosen = [index] if index is not None else list(itertools.islice(np.ndindex(*dims), most))
    return {
        "buffer": placement.buffer.name,
        "shape": str(placement.shape),
        "partitions": placement.partitions_used,
        "bytes_per_partition": placement.bytes_per_partition_used,
        "elements": _places(placement, chosen),
        "left_out": 0 if index is not None else total - len(chosen),
    }


def _places(placement: Placement, indices: Sequence[tuple[int, ...]]) -> list[dict[str, Any]]:
    """Return the index, partition, bank, byte and bit of each element."""
    if not indices or not placement.shape.dims:
        columns: Any = [()] * len(indices)
        found = [[place(()) for _ in indices] for place in _ways(placement)]
    else:
        columns = np.asarray(indices).tolist()
        arrays = list(np.asarray(indices).T)
        found = [np.asarray(place(arrays)).tolist() for place in _ways(placement)]
    names = ("partition", "bank", "byte", "bit")
    return [
        {"index": list(index), **dict(zip(names, place, strict=True))}
        for index, *place in zip(columns, *found, strict=True)
    ]


def _ways(placement: Placement) -> tuple[Callable[[Any], Any], ...]:
    return placement.partition_of, placement.bank_of, placement.byte_of, placement.bit_of


# -- reading the options --------------------------------------------------------------------------


def _padded(shape: Shape, widths: str | None, value: float | None) -> Shape:
    """Return the shape with the legacy padding that is asked for."""
    if widths is not None:
        return shape.with_padding(read_numbers(widths), 0 if value is None else value)
    if value is not None:
        raise LayoutError("--padding-value needs --padded-dimensions, which say what it fills")
    return shape


def chip_placement(
    shape: Shape, buffer: str, chip: str | None, block: str | None = None
) -> Placement:
    """Return where ``shape`` lies in a chip's buffer.

    In the state buffer the shape's own tiles say so. Without tiles it lies as a run places it, in
    rows that are unbroken, or in the blocks that are asked for. In the result buffer it lies in
    blocks, by default as large as the array.
    """
    if buffer not in BUFFERS:
        hint = perhaps(buffer, BUFFERS)
        raise LayoutError(f'--buffer must be one of {", ".join(BUFFERS)}, found "{buffer}"{hint}')
    if buffer == "dram":
        return place_in_dram(shape)
    if chip is None:
        raise LayoutError(f"--buffer {buffer} needs --chip NAME: its size is the chip's")
    from systolic.config.chip_file import find_chip, load_one_core  # pydantic takes long to load

    sizes = None if block is None else read_numbers(block)
    spec = load_one_core(find_chip(chip, Path(), "--chip"))
    if buffer == "result_buffer":
        room = BufferGeometry(
            buffer,
            spec.pe_array.cols,
            spec.result_buffer.banks * spec.result_buffer.bank_bytes,
            spec.result_buffer.banks,
        )
        size = (spec.pe_array.rows, spec.pe_array.cols) if sizes is None else sizes
        return place_in_result_buffer(shape, room, size)
    geometry = spec.state_buffer
    room = BufferGeometry(buffer, geometry.partitions, geometry.bytes_per_partition, geometry.banks)
    if block is None and not shape.layout.tiles:
        shape = in_rows(shape, block_rows(spec))
    return place_in_state_buffer(shape, room, sizes)


def _target(source: Shape, text: str) -> Shape:
    target = Shape.parse(shape_in_line(text))
    if target.element_type != source.element_type or target.dims != source.dims:
        raise LayoutError(f"--to must be the same array in another layout, found {target}")
    return target


# -- printing -------------------------------------------------------------------------------------


def _print(
    facts: dict[str, Any], shape: Shape, placement: Placement | None, plan: RelayoutPlan | None
) -> None:
    console = Console(highlight=False)
    console.print(Whole(_facts_table(facts, shape)), crop=False)
    if shape.num_elements() > 0 and shape.padded_elements() <= SMALL:
        console.print(f"memory order: {memory_order(shape)}", markup=False, soft_wrap=True)
    if placement is not None:
        console.print(placement_line(facts["placement"]), markup=False, soft_wrap=True)
        console.print(Whole(_placement_table(facts["placement"]["elements"])), crop=False)
        if facts["placement"]["left_out"]:
            console.print(left_out_line(facts["placement"]), markup=False, soft_wrap=True)
    if plan is not None:
        console.print(relayout_line(facts["relayout"]), markup=False, soft_wrap=True)
    if "picture" in facts:
        console.print(picture_line(facts), markup=False, soft_wrap=True)


def picture_line(facts: dict[str, Any]) -> str:
    """Return where the picture is and, if it shows a window, which rows and columns."""
    parts = [
        f"{name} {extent['first']} to {extent['stop'] - 1} of {extent['of']}"
        for name, extent in facts["window"].items()
    ]
    whole = all(e["stop"] - e["first"] == e["of"] for e in facts["window"].values())
    return f"picture: {facts['picture']}" + ("" if whole else f" (a window: {', '.join(parts)})")


def left_out_line(facts: dict[str, Any]) -> str:
    """Return how many elements a placement's table leaves out, and how to see them."""
    shown = len(facts["elements"])
    return (
        f"{facts['left_out']} more elements are not listed (the table has the first {shown}): "
        f"--index shows any one, --json lists up to {MOST_PLACED:,}"
    )


def memory_order(shape: Shape) -> str:
    """Return the row-major number of the element at each offset, ``.`` for padding."""
    return " ".join("." if number < 0 else str(number) for number in shape.permutation())


def relayout_line(cost: dict[str, Any]) -> str:
    """Return the cost of a relayout as a sentence."""
    return (
        f"relayout to {cost['to']}: {cost['bytes']} bytes in {cost['runs']} contiguous runs, "
        f"{cost['elements_per_run']:.4g} elements each on average"
    )


def placement_line(facts: dict[str, Any]) -> str:
    """Return as a sentence how much of its buffer a placement takes."""
    return (
        f"{facts['buffer']}: {facts['partitions']} partitions, "
        f"{facts['bytes_per_partition']} bytes in each, as {facts['shape']}"
    )


def _facts_table(facts: dict[str, Any], shape: Shape) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    rows = {
        "shape": facts["shape"],
        "physical dimensions": " x ".join(map(str, facts["physical_dims"])) or "none (a scalar)",
        "elements": str(facts["elements"]),
        "with padding": f"{facts['padded_elements']} ({shape.padding_share():.1%} padding)",
        "bytes": str(facts["bytes"]),
        "XLA's ArraySize": _or_none(facts["xla_array_size"], "undefined (the first tile has *)"),
    }
    if facts["offset"] is not None:
        element = "padding" if facts["index"] is None else _index(facts["index"])
        rows[f"offset {facts['offset']}"] = element
    for name, value in rows.items():
        table.add_row(name, value.replace("[", r"\["))
    return table


def _or_none(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else str(value)


def _index(index: list[int]) -> str:
    return "(" + ", ".join(map(str, index)) + ")"


def _placement_table(places: list[dict[str, Any]]) -> Table:
    table = Table("element", "partition", "bank", "byte")
    for place in places:
        byte = f"{place['byte']}" + (f" (bit {place['bit']})" if place["bit"] else "")
        table.add_row(_index(place["index"]), str(place["partition"]), str(place["bank"]), byte)
    return table
