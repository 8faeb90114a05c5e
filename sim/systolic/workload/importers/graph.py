"""A form as a graph: what nothing needs is left out, and results get the layouts of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from systolic.arrays import Array
from systolic.layout import Shape
from systolic.workload.graph import Graph, make_graph, named_operation
from systolic.workload.importers.fold import folded
from systolic.workload.importers.form import ModelForm, ModelNode, ModelValue
from systolic.workload.importers.masks import finite_masks
from systolic.workload.importers.recognise import recognised
from systolic.workload.importers.transposes import sunk_transposes
from systolic.workload.tensor import Home, Tensor


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a graph.

    inputs: the tensors that the user gives, in the order of the file, those that nothing takes
    included. constants: the values of the other inputs of the graph. outputs: the tensor of each
    result of the file, in its order. known: inputs that are constants, since shapes depend on them.
    int64: the outputs that are integers of 64 bits in the model. is_open: whether the model leaves
    sizes open, which are given or 1. names: all inputs of the file in its order, `known` included.
    places: where each operation stands in the file, by its name.
    """

    graph: Graph
    inputs: tuple[str, ...]
    constants: dict[str, Array]
    outputs: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    known: Mapping[str, Array] = field(default_factory=dict)
    int64: tuple[str, ...] = ()
    is_open: bool = False
    names: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def as_graph(
    form: ModelForm,
    results: Sequence[ModelValue],
    shapes: Sequence[Shape],
    names: Sequence[str] = (),
    home: Home = "dram",
    *,
    place: Callable[[int], str] = str,
) -> Imported:
    """Return a form as a graph whose results lie as `shapes` say.

    names: of the results (none: output_0, output_1, ...). place: the words for an offset in
    the file.

    Raises:
        WorkloadError: there is nothing to do, or shapes do not fit.

    """
    outputs = _results(form, results, shapes, names)
    form.nodes[:] = _needed(form, outputs)
    form = sunk_transposes(form, outputs)
    folded(form, outputs)
    recognised(form, outputs)
    finite_masks(form, outputs)
    nodes = _needed(form, outputs)
    used = {name for node in nodes for name in (*node.inputs, node.output)}
    inner = [name for name in form.shapes if name in used and name not in outputs]
    # A graph has its outputs in the order of its tensors, a model in an order of its own.
    tensors = {name: Tensor(form.shapes[name], home) for name in (*inner, *outputs)}
    operations = [
        replace(
            named_operation(node.kind, node.inputs, node.output, node.attributes),
            name=node.output,
        )
        for node in nodes
    ]
    graph = make_graph(tensors, operations)
    constants = {name: form.constants[name] for name in graph.inputs if name in form.constants}
    given = tuple(form.inputs)
    return Imported(
        graph,
        given,
        constants,
        tuple(outputs),
        tuple(form.shapes[n] for n in given),
        names=given,
        places={node.output: place(node.offset) for node in nodes if node.offset},
    )


def _results(
    form: ModelForm, results: Sequence[ModelValue], shapes: Sequence[Shape], names: Sequence[str]
) -> list[str]:
    """Return the tensors of the results by their names; nothing else takes them."""
    taken = {name for node in form.nodes for name in node.inputs}
    found = list[str]()
    for number, (value, shape) in enumerate(zip(results, shapes, strict=True)):
        tensor, name = form.whole(value), names[number] if names else f"output_{number}"
        if form.maker(tensor) is None or tensor in taken or tensor in found:
            form.begin(name, 0)
            tensor = form.node("relayout", (tensor,), shape)
        found.append(form.renamed(tensor, name, shape))
    return found


def _needed(form: ModelForm, outputs: Sequence[str]) -> list[ModelNode]:
    """Return the nodes on which results depend, in their order."""
    needed, found = set(outputs), list[ModelNode]()
    for node in reversed(form.nodes):
        if node.output in needed:
            needed.update(node.inputs)
            found.append(node)
    return found[::-1]
