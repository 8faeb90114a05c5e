"""The table of lowerings: a row for each operation.

A lowering takes the builder and the operation; it asks for views of the inputs and makes a view of
the output. `_finish` then brings outputs to the memory in which they live. The meaning of the
operations is in `systolic.workload.operations.table`, which has the same keys.
"""

from __future__ import annotations

from collections.abc import Callable

from systolic.compiler.ir.nodes import Layers
from systolic.compiler.lower.builder import LayerBuilder
from systolic.compiler.lower.engines.cast import lower_cast
from systolic.compiler.lower.engines.causal_mask import lower_causal_mask
from systolic.compiler.lower.engines.elementwise import (
    activation_step,
    each_element,
    lower_binary,
    lower_requantise,
    lower_select,
    lower_tensor_scalar,
)
from systolic.compiler.lower.engines.pool import lower_pool
from systolic.compiler.lower.engines.predicates import with_predicates
from systolic.compiler.lower.engines.reduce import lower_reduce
from systolic.compiler.lower.engines.whole_rows import ROW_LOWERINGS, row_work
from systolic.compiler.lower.matrices import PRODUCTS
from systolic.compiler.lower.moves.gathers import (
    lower_concat,
    lower_constant,
    lower_index_map,
    lower_iota,
)
from systolic.compiler.lower.moves.packed import (
    Carried,
    carried_graph,
    pack_output,
    prepare_outputs,
    reserve_places,
    unpack_inputs,
)
from systolic.compiler.lower.moves.permute import lower_relayout, lower_transpose
from systolic.compiler.lower.moves.reshape import lower_reshape
from systolic.compiler.lower.products.conv2d import lower_conv2d
from systolic.compiler.lower.products.exact_products import with_exact_products
from systolic.compiler.lower.products.matmul import lower_matmul
from systolic.compiler.lower.room import check_room
from systolic.compiler.lower.views import physical
from systolic.errors import CompileError, perhaps, shortened
from systolic.hw.spec import Chip
from systolic.workload import OPERATIONS, Graph, Operation
from systolic.workload.expand import expanded
from systolic.workload.operations.whole_rows import WHOLE_ROWS
from systolic.workload.options import Options

Lower = Callable[[LayerBuilder, Operation], None]

LOWERINGS: dict[str, Lower] = {
    "matmul": lower_matmul,
    "conv2d": lower_conv2d,
    "transpose": lower_transpose,
    "relayout": lower_relayout,
    "reshape": lower_reshape,
    "cast": lower_cast,
    "activation": each_element(activation_step),
    "binary": lower_binary,
    "tensor_scalar": lower_tensor_scalar,
    "select": lower_select,
    "requantise": lower_requantise,
    "reduce": lower_reduce,
    "pool": lower_pool,
    "concat": lower_concat,
    **{name: lower_index_map for name, row in OPERATIONS.items() if row.index_map},
    "iota": lower_iota,
    "constant": lower_constant,
    "causal_mask": lower_causal_mask,
    **ROW_LOWERINGS,
}
LOWERED = {name for name, row in OPERATIONS.items() if row.parts is None} | WHOLE_ROWS.keys()
"""All operations but those that are always lowered part by part."""
if LOWERINGS.keys() != LOWERED:
    raise TypeError(
        f"operations without a row in both tables: {sorted(LOWERINGS.keys() ^ LOWERED)}"
    )


def check_choices(graph: Graph, options: Options) -> None:
    """Raise CompileError if options are for a product that is not there, or do not fit its kind."""
    products = {op.name: op.kind for op in graph.operations if op.kind in PRODUCTS}
    for name, own in options.operations.items():
        where = f"compile.operations.{shortened(name)}"
        if name not in products:
            known = ", ".join(products) or "none"
            raise CompileError(
                f"{where}: there is no such product (known: {known}){perhaps(name, products)}"
            )
        if products[name] != "matmul" and own.stationary is not None:
            raise CompileError(
                f"{where}.stationary: a {products[name]} holds its weights in the array; only a "
                f"matmul has this choice"
            )


def lower_graph(graph: Graph, chip: Chip, options: Options) -> Layers:
    """Return the layers of a graph: the first pass."""
    check_choices(graph, options)
    carried = carried_graph(
        with_predicates(with_exact_products(expanded(graph, row_work(chip)), chip), chip), chip
    )
    check_room(graph, chip)
    return _lowered(carried, chip, options).layers()


def _lowered(carried: Carried, chip: Chip, options: Options) -> LayerBuilder:
    """Return the builder of a graph that is lowered."""
    graph = carried.graph
    places = reserve_places(carried, chip)
    builder = LayerBuilder(
        graph,
        chip,
        options,
        places,
        types=carried.types,
        packed=carried.on_chip,
        whole=carried.whole,
    )
    prepare_outputs(builder, carried)  # before anything is written over what is there
    unpack_inputs(builder, carried)
    for op in graph.operations:
        if builder.at_home(op.output):
            continue  # it has been moved as its source was unpacked
        builder.begin(op.layer)
        LOWERINGS[op.kind](builder, op)
    makers = {op.output: op.layer for op in graph.operations}
    packed = {each.elements: each for each in carried.outputs}
    for name in graph.outputs:
        builder.begin(makers[name])  # bringing a result home belongs to the operation that makes it
        if name not in packed or packed[name].tensor.home == "dram":
            _finish(builder, name)
        if name in packed:
            pack_output(builder, packed[name])
    return builder


def _finish(builder: LayerBuilder, name: str) -> None:
    """Bring an output to the memory in which it lives, if it is not there."""
    if builder.at_home(name):
        return
    tensor = builder.graph.tensor(name)
    if tensor.home == "dram":
        matrix, axes = builder.storable(name, physical(tensor.shape)[-1])
        builder.store(matrix, name, tensor.shape, axes)
    else:
        builder.keep(name)
