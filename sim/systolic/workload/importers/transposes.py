"""Transposes moved behind what works in any order of dimensions, until they cancel.

Files whose images have channels in front turn each image before and behind every convolution. What
lies between two of these works element by element, or along axes that have numbers, and can be done
in the order in which the elements lie. So a transpose is not made where it stands: what takes its
result takes its operand instead, with axes renumbered, and hands the order on. It is made where an
operation needs an order of its own. If that would move more elements than before, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from systolic.layout import Shape
from systolic.workload.importers.form import ModelForm, ModelNode, as_it_lies

AxisOrder: TypeAlias = tuple[int, ...]
"""For each dimension of a tensor as it is known the dimension of memory along which it lies."""


def sunk_transposes(form: ModelForm, results: Sequence[str]) -> ModelForm:
    """Return a form with transposes moved down; results keep their names and shapes."""
    found = _Sinking(form, results).form()
    return found if _moved(found) < _moved(form) else form


def _moved(form: ModelForm) -> int:
    """Return how many elements transposes move."""
    made = [form.shapes[node.output] for node in form.nodes if node.kind == "transpose"]
    return sum(math.prod(shape.dims) for shape in made)


class _Sinking:
    """Makes a form of another one, operation by operation.

    _views: for each tensor of the old form one of the new form, and the order in which it lies.
    _made: transposes that were made of such tensors.
    """

    def __init__(self, old: ModelForm, results: Sequence[str]) -> None:
        self.old = old
        self.new = old.without_nodes()
        self._results = tuple(results)
        self._views: dict[str, tuple[str, AxisOrder]] = {}
        self._made: dict[str, str] = {}

    def form(self) -> ModelForm:
        """Return the new form."""
        for node in self.old.nodes:
            rule = RULES.get(node.kind)
            turned = node.kind == "transpose" or any(map(self.is_turned, node.inputs))
            if not turned or rule is None or not rule(self, node):
                self._as_it_was(node)
        for name in self._results:
            self._end(name)
        return self.new

    def view(self, name: str) -> tuple[str, AxisOrder]:
        """Return the tensor that has the elements of an old one, and the order in which it lies."""
        return self._views.get(name) or (name, tuple(range(self.old.shapes[name].rank)))

    def is_turned(self, name: str) -> bool:
        """Return whether a tensor lies in another order than it is known in."""
        order = self.view(name)[1]
        return order != tuple(range(len(order)))

    def put(self, node: ModelNode, inputs: Sequence[str], order: AxisOrder, **changed: Any) -> bool:
        """Add an operation that is done in an order of its own; its old result is a view of it."""
        out, is_it = self.old.shapes[node.output], order == tuple(range(len(order)))
        is_other = node.output in self._results and not is_it
        name = self.new.free_name(node.output) if is_other else node.output
        attributes = {**node.attributes, **changed}
        kept = {key: value for key, value in attributes.items() if value is not None}
        made = replace(node, inputs=tuple(inputs), output=name, attributes=kept)
        self.new.put(made, out if is_it else Shape(out.element_type, in_order(out.dims, order)))
        self._views[node.output] = (name, order)
        return True

    def turn(self, node: ModelNode) -> bool:
        """Note a transpose, which is not made yet."""
        source, order = self.view(node.inputs[0])
        composed = tuple(order[axis] for axis in node.attributes["permutation"])
        self._views[node.output] = (source, composed)
        return True

    def settled(self, name: str) -> str:
        """Return a tensor of the new form that is what the old one was."""
        if name not in self._made:
            source, order = self.view(name)
            maker = self.old.maker(name)
            was = maker is not None and maker.kind == "transpose"
            own = self.old.shapes[name] if was else None
            turned = self.turned(source, order, name, own) if self.is_turned(name) else source
            self._made[name] = turned
        return self._made[name]

    def turned(self, source: str, order: AxisOrder, name: str, out: Shape | None = None) -> str:
        """Return a tensor with its dimensions in an order; `name` is the old one's."""
        own, maker = self.new.shapes[source], self.old.maker(name)
        if source in self.new.constants:
            return self.new.whole(self.new.constants[source].transpose(order))
        shape = out or as_it_lies(own, order)
        self.new.begin(maker.title if maker else name, maker.offset if maker else 0)
        if moves_ones(own.dims, order):
            return self.new.reshaped(source, shape.dims)
        taken = name in self.new.shapes or name in self._results
        output = self.new.free_name(name) if taken else name
        node = ModelNode(
            "transpose", (source,), output, {"permutation": order}, self.new.title, self.new.offset
        )
        self.new.put(node, shape)
        return output

    def _as_it_was(self, node: ModelNode) -> None:
        inputs = tuple(self.settled(name) for name in node.inputs)
        self.new.put(replace(node, inputs=inputs), self.old.shapes[node.output])

    def _end(self, name: str) -> None:
        """Make a result what it was, under its name."""
        source, order = self.view(name)
        if source == name and not self.is_turned(name):
            return
        shape = self.old.shapes[name]
        self.new.begin(name, 0)
        taken = {each for node in self.new.nodes for each in node.inputs}
        if self.is_turned(name):
            node = ModelNode("transpose", (source,), name, {"permutation": order}, name)
            self.new.put(node, shape)
        elif self.new.maker(source) is None or source in {*taken, *self._results}:
            self.new.put(ModelNode("relayout", (source,), name, {}, name), shape)
        else:
            self.new.renamed(source, name, shape)


def in_order(dims: Sequence[int], order: AxisOrder) -> tuple[int, ...]:
    """Return dimensions as they lie."""
    found = [0] * len(dims)
    for size, axis in zip(dims, order, strict=True):
        found[axis] = size
    return tuple(found)


def inverse(order: AxisOrder) -> AxisOrder:
    """Return for each dimension of memory the one that lies along it."""
    return tuple(sorted(range(len(order)), key=lambda axis: order[axis]))


def moves_ones(dims: Sequence[int], order: AxisOrder) -> bool:
    """Return whether only dimensions of one element change their places."""
    kept = [axis for axis in order if dims[axis] > 1]
    return kept == sorted(kept)


# what works in any order


def _element_by_element(at: _Sinking, node: ModelNode) -> bool:
    """Work in the order in which all operands of full size lie."""
    old, out = at.old, at.old.shapes[node.output]
    given = node.attributes.get("broadcast_dimensions") or ()
    full = [name for name in node.inputs if old.shapes[name].rank == out.rank]
    orders = {at.view(name)[1] for name in full if at.is_turned(name)}
    rest = [n for n in full if not at.is_turned(n) and n not in old.constants]
    if len(orders) != 1 or any(old.shapes[name].dims == out.dims for name in rest):
        return False
    (order,) = orders
    along = tuple(order[axis] for axis in given)
    inputs = []
    for name in node.inputs:
        rank = old.shapes[name].rank
        if rank == out.rank:
            inputs.append(_in_that_order(at, name, order))
        elif rank > 1 and list(along) != sorted(along):
            ranks = tuple(sorted(along).index(axis) for axis in along)
            inputs.append(_in_that_order(at, name, ranks))
        else:
            inputs.append(at.settled(name))
    return at.put(node, inputs, order, broadcast_dimensions=tuple(sorted(along)) or None)


def _in_that_order(at: _Sinking, name: str, order: AxisOrder) -> str:
    """Return a tensor as it lies in an order."""
    source, own = at.view(name)
    if own == order:
        return source
    return at.turned(at.settled(name), inverse(order), name)


def _reduce(at: _Sinking, node: ModelNode) -> bool:
    source, order = at.view(node.inputs[0])
    axes = node.attributes["axes"]
    kept = [along for axis, along in enumerate(order) if axis not in axes]
    ranks = tuple(sorted(kept).index(along) for along in kept)
    return at.put(node, (source,), ranks, axes=tuple(sorted(order[axis] for axis in axes)))


def _along_an_axis(at: _Sinking, node: ModelNode) -> bool:
    """Renumber the axis; a left-out one is the last."""
    rank = at.old.shapes[node.inputs[0]].rank
    orders = {at.view(name)[1] for name in node.inputs if name not in at.old.constants}
    if len(orders) != 1:
        return False
    (order,) = orders
    inputs = [_in_that_order(at, name, order) for name in node.inputs]
    return at.put(node, inputs, order, axis=order[node.attributes.get("axis", rank - 1)])


def _along_the_last(at: _Sinking, node: ModelNode) -> bool:
    source, order = at.view(node.inputs[0])
    if order[-1] != len(order) - 1:
        return False
    return at.put(node, (source, *(at.settled(name) for name in node.inputs[1:])), order)


def _by_dimension(*keys: str) -> SinkRule:
    """Return the rule of an operation that has a number for each dimension."""

    def rule(at: _Sinking, node: ModelNode) -> bool:
        source, order = at.view(node.inputs[0])
        given = {key: node.attributes.get(key) for key in keys}
        turned = {key: in_order(n, order) if n is not None else None for key, n in given.items()}
        return at.put(node, (source,), order, **turned)

    return rule


def _reshape(at: _Sinking, node: ModelNode) -> bool:
    """See other dimensions in the same order, if those that become one lie side by side."""
    (name,) = node.inputs
    source, order = at.view(name)
    dims, out = at.old.shapes[name].dims, at.old.shapes[node.output].dims
    groups = _groups(dims, out)
    if groups is None:
        return False
    places = list[tuple[int, list[int]]]()
    for first, stop, made in groups:
        along = [order[axis] for axis in range(first, stop) if dims[axis] > 1]
        if along != list(range(along[0], along[0] + len(along))) if along else False:
            between = {order[axis] for axis in range(len(dims)) if dims[axis] == 1}
            gaps = set(range(along[0], along[-1])) - {*along} if along == sorted(along) else None
            if gaps is None or not gaps <= between:
                return False
        # dimensions of one element lie behind those that they stand behind
        places.append((along[0] if along else places[-1][0] if places else -1, made))
    lying = [axis for _, made in sorted(places, key=lambda each: each[0]) for axis in made]
    found = tuple(lying.index(axis) for axis in range(len(out)))
    return at.put(node, (source,), found)


def _groups(dims: Sequence[int], out: Sequence[int]) -> list[tuple[int, int, list[int]]] | None:
    """Return parts of dimensions, first to before stop, and what they become in `out`."""
    found, one, other = list[tuple[int, int, list[int]]](), 0, 0
    while one < len(dims) or other < len(out):
        first, begun = one, other
        left = dims[one] if one < len(dims) else 1
        right = out[other] if other < len(out) else 1
        one, other = min(one + 1, len(dims)), min(other + 1, len(out))
        while left != right:
            if left < right and one < len(dims):
                left, one = left * dims[one], one + 1
            elif right < left and other < len(out):
                right, other = right * out[other], other + 1
            else:
                return None
        found.append((first, one, list(range(begun, other))))
    return found


SinkRule: TypeAlias = Callable[[_Sinking, ModelNode], bool]
"""What tries to do an operation in the order in which its operands lie; False: it cannot."""

RULES: Mapping[str, SinkRule] = {
    "transpose": _Sinking.turn,
    **dict.fromkeys(
        ("activation", "cast", "binary", "select", "tensor_scalar", "clip"), _element_by_element
    ),
    "reduce": _reduce,
    "reshape": _reshape,
    **dict.fromkeys(("softmax", "concat", "take"), _along_an_axis),
    **dict.fromkeys(("layer_norm", "rms_norm"), _along_the_last),
    "slice": _by_dimension("start", "stop", "step"),
    "pad": _by_dimension("low", "high", "interior"),
}
