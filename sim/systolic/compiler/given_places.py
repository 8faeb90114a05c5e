"""Places that a user gives to tensors on the chip: those that the compiler would choose itself.

The compiler prints where tensors without tiles lie, as tiles with partition and byte. Given back,
they are tiles like any others, between which other ways may lead than between tensors that may lie
anywhere. So a graph is compiled without them first: if its tensors come to lie there again, the
program is the program of the run which printed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from systolic.compiler.ir.carried import is_packed
from systolic.layout import Placement
from systolic.workload import Graph, Tensor


def without_places(graph: Graph) -> Iterator[Graph]:
    """Yield graphs whose tensors with tiles and a byte on the chip lie where the compiler likes.

    None of them has tiles; only the inputs have theirs; only the others have. Nothing is yielded if
    there are no such tensors.
    """
    given = [name for name, tensor in graph.tensors if _is_given(tensor)]
    inputs = {name for name in given if name in graph.inputs}
    for tiled in dict.fromkeys((frozenset(), frozenset(inputs), frozenset({*given} - inputs))):
        if len(tiled) < len(given):
            yield replace(
                graph,
                tensors=tuple(
                    (name, _freed(tensor, tiled=name in tiled) if name in given else tensor)
                    for name, tensor in graph.tensors
                ),
            )


def has_its_places(graph: Graph, placements: Mapping[str, Placement]) -> bool:
    """Return whether all tensors of a graph with tiles and a byte lie there.

    placements: of the graph compiled without them.
    """
    return all(
        name in placements
        and placements[name].shape == tensor.shape
        and placements[name].base_partition == tensor.partition
        and placements[name].base_byte == tensor.byte
        for name, tensor in graph.tensors
        if _is_given(tensor)
    )


def _is_given(tensor: Tensor) -> bool:
    """Return whether tiles, partition and byte say where a tensor lies on the chip."""
    on_chip = tensor.home == "state_buffer" and tensor.byte is not None
    tiled = bool(tensor.shape.layout.tiles) and not is_packed(tensor.shape)
    return on_chip and tiled and tensor.shape.layout.padded_dimensions is None


def _freed(tensor: Tensor, *, tiled: bool) -> Tensor:
    shape = tensor.shape
    if not tiled:
        shape = shape.with_layout(replace(shape.layout, tiles=()))
    return Tensor(shape, tensor.home, tensor.partition if tiled else 0)
