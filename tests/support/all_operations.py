"""Random chains of operations of all kinds: images, products, moves, and what engines compute."""

from __future__ import annotations

from random import Random

from support.drawn_operations import MEANINGS, grown
from support.image_graphs import grow_images, start_images
from support.lane_graphs import FLOATS, HOMES, Grown, grow, start, text
from systolic.hw.units import PATENT_CAPABILITIES
from systolic.workload import Graph, GraphBuilder

SELECTS = {"pooling": {"does": (*PATENT_CAPABILITIES, "copy_predicated")}}
"""Tables of a chip one of whose engines has the instruction that a select needs."""


def random_graph(rng: Random) -> Graph:
    """Return a chain of two to six operations.

    Half of the chains have an operation of the table of meanings; of the others half begin with
    images.
    """
    builder = GraphBuilder(rng.choice(HOMES))
    if rng.random() < 0.5:
        meaning = MEANINGS[rng.choice([*MEANINGS])](rng)
        now = grown(rng, builder, meaning, made=True)
        if now.dtype in (*FLOATS, "s8", "s32") and rng.random() < 0.7:
            grow(rng, builder, now, 1)
        return builder.graph()
    number = 0
    if rng.random() < 0.5:
        images = start_images(rng, builder)
        for number in range(rng.randint(1, 3)):
            images = grow_images(rng, builder, images, number)
        now = Grown(images.name, images.dtype, images.dims)
    else:
        now = start(rng, builder)
    for further in range(number + 1, number + 1 + rng.randint(1, 3)):
        now = rng.choice([grow, grow, _move, _product])(rng, builder, now, further)
    if rng.random() < 0.3:
        _selected(rng, builder, now)
    return builder.graph()


def _selected(rng: Random, builder: GraphBuilder, now: Grown) -> None:
    """Add a select of what the graph has grown to, or of a tensor that is spread over it."""
    spread = [axis for axis in range(len(now.dims)) if rng.random() < 0.5]
    own = [list(now.dims), [now.dims[axis] for axis in spread], []]
    dims = {"p": rng.choice(own), "o": rng.choice(own)}
    lower = {len(each) for each in dims.values()} - {0, len(now.dims)}
    given = {"broadcast_dimensions": tuple(spread)} if lower else {}
    types = {"p": rng.choice(["pred", "s8", "f32"]), "o": now.dtype}
    predicate, other = (
        builder.tensor(f"{name}s", text(rng, types[name], dims[name]), rng.choice(HOMES))
        for name in "po"
    )
    pair = (now.name, other) if rng.random() < 0.5 else (other, now.name)
    shape = text(rng, now.dtype, now.dims)
    builder.add("select", (predicate, *pair), shape, name="selected", **given)


def _move(rng: Random, builder: GraphBuilder, now: Grown, number: int) -> Grown:
    """Add a transpose, a relayout or a reshape."""
    if not now.dims:
        return grow(rng, builder, now, number)
    kind, dims, given = rng.choice(["transpose", "relayout", "reshape"]), list(now.dims), {}
    if kind == "transpose":
        axes = rng.sample(range(len(dims)), len(dims))
        dims, given = [dims[axis] for axis in axes], {"permutation": tuple(axes)}
    elif kind == "reshape":
        dims = [dims[0] * dims[1], *dims[2:]] if len(dims) > 1 else [1, *dims]
    shape = text(rng, now.dtype, dims)
    name = builder.add(kind, (now.name,), shape, name=f"y{number}", **given)
    return Grown(name, now.dtype, tuple(dims))


def _product(rng: Random, builder: GraphBuilder, now: Grown, number: int) -> Grown:
    """Multiply with a matrix from the right."""
    if len(now.dims) < 2 or now.dtype == "s32":
        return grow(rng, builder, now, number)
    *rows, inner = now.dims
    cols = rng.randint(1, 9)
    other = builder.tensor(f"m{number}", text(rng, now.dtype, [inner, cols]), rng.choice(HOMES))
    out = rng.choice(["s32", "s8"] if now.dtype == "s8" else ["f32", *FLOATS])
    shape = text(rng, out, [*rows, cols])
    name = builder.matmul(now.name, other, shape, name=f"y{number}")
    return Grown(name, out, (*rows, cols))
