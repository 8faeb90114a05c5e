"""Cones of a form: the operations between one tensor and another, which nothing else takes.

Not here: what a cone computes (`recognise`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from systolic.workload.importers.form import ModelForm, ModelNode

PIECES = ("activation", "binary", "reduce", "reshape", "select", "cast")
"""Kinds of operations that a function or a norm may be made of."""
ROOTS = ("binary", "activation", "select")
MOST_PIECES = 96
"""A function of errors in pieces has some eighty."""
MOST_TRIED = 24
"""The most cones with one root that are looked at."""


@dataclass(frozen=True, slots=True)
class Cone:
    """Operations in order, the last being the root, and the tensors that they take from outside."""

    nodes: tuple[ModelNode, ...]
    sources: tuple[str, ...]

    @property
    def root(self) -> ModelNode:
        """Return the last operation."""
        return self.nodes[-1]

    @property
    def inner(self) -> set[str]:
        """Return the tensors between the source and the result that depend on the source."""
        led = {self.sources[0]}
        for node in self.nodes:
            if not led.isdisjoint(node.inputs):
                led.add(node.output)
        return led - {self.sources[0], self.root.output}


class Cones:
    """The cones of a form. results: tensors that must stay."""

    def __init__(self, form: ModelForm, results: Sequence[str]) -> None:
        self._form = form
        self._results = set(results)
        self._order = {node.output: n for n, node in enumerate(form.nodes)}
        self._takers: dict[str, set[str]] = {}
        for node in form.nodes:
            self._note(node)

    def _note(self, node: ModelNode) -> None:
        for name in node.inputs:
            self._takers.setdefault(name, set()).add(node.output)

    def replaced(self, cone: Cone, nodes: Sequence[ModelNode]) -> None:
        """Note that other operations have taken the place of a cone."""
        for each in cone.nodes:
            for name in each.inputs:
                self._takers[name].discard(each.output)
        for node in nodes:
            self._order[node.output] = self._order[cone.root.output]
            self._note(node)

    def ending_in(self, root: ModelNode) -> Iterator[Cone]:
        """Yield the cones that end in `root` and begin at one tensor as large, largest first.

        Numbers for each place along a dimension may come from outside. With pieces that make such
        numbers from others a cone is tried after the one without them.
        """
        if root.kind not in ROOTS:
            return
        for ordered, source in reversed(self._regions(root)):
            count = 0
            for deep in (False, True):
                nodes, others = self._of_source(ordered, source, deep=deep)
                if (deep and len(nodes) == count) or len(nodes) < 2:
                    continue
                count = len(nodes)
                cone = Cone(tuple(nodes), (source, *others))
                if self._is_closed(cone):
                    yield cone

    def _regions(self, root: ModelNode) -> list[tuple[list[ModelNode], str]]:
        """Return the operations between single tensors of as many elements and the root.

        From the root on the operation that stands last is looked behind, so that a tensor is alone
        where all ways to the root lead through it.
        """
        form = self._form
        dims, inside, found = form.shapes[root.output].dims, list[ModelNode](), list[Any]()
        front = {root.output}
        size = form.shapes[root.output].num_elements()
        while len(inside) < MOST_PIECES and len(found) < MOST_TRIED:
            pieces = [name for name in front if self._is_piece(name)]
            if not pieces:
                break
            last = max(pieces, key=lambda name: self._order[name])
            node = form.maker(last)
            assert node is not None
            inside.append(node)
            front.remove(last)
            front.update(name for name in node.inputs if name not in form.constants)
            wide = [name for name in front if len(dims) < 2 or form.shapes[name].rank != 1]
            if sum(not self._is_piece(name) for name in wide) > 1:
                break
            if len(wide) == 1 and form.shapes[wide[0]].num_elements() == size:
                found.append((inside[::-1], wide[0]))
        return found

    def _is_piece(self, name: str) -> bool:
        """Return whether to look behind what makes a tensor: not behind lines cut out of others."""
        made = self._form.maker(name)
        if made is None or made.kind not in PIECES:
            return False
        if made.kind != "reshape" or self._form.shapes[name].rank != 1:
            return True
        before = self._form.maker(made.inputs[0])
        return before is not None and before.kind in PIECES

    def _of_source(
        self, ordered: Sequence[ModelNode], source: str, *, deep: bool
    ) -> tuple[list[ModelNode], list[str]]:
        """Return the operations that the source leads to, and the tensors that join them.

        A reshape of such a tensor is one of the operations; so is, if `deep`, what makes its
        numbers from others. No operation: something that joins is no number for each place.
        """
        form, led = self._form, {source}
        for node in ordered:
            if not led.isdisjoint(node.inputs):
                led.add(node.output)
        joined = {name for node in ordered if node.output in led for name in node.inputs} - led
        kept = list[ModelNode]()
        for node in reversed(ordered):
            wide = node.kind == "reshape" and form.shapes[node.output].rank > 1
            if node.output in joined and (wide or deep):
                joined.remove(node.output)
                joined.update(node.inputs)
                kept.append(node)
            elif node.output in led:
                kept.append(node)
        sizes = form.shapes[source].dims
        lines = {name for name in joined if _line(form, name) in sizes}
        if joined - lines - form.constants.keys():
            return [], []
        others = [name for name in joined if name in lines]
        order = {name: n for n, node in enumerate(ordered) for name in reversed(node.inputs)}
        return kept[::-1], sorted(others, key=lambda name: order[name])

    def _is_closed(self, cone: Cone) -> bool:
        """Return whether nothing outside takes what the cone's pieces make, but for its root."""
        names = {node.output for node in cone.nodes}
        return not any(self._takers[name] - names or name in self._results for name in cone.inner)


def _line(form: ModelForm, name: str) -> int:
    """Return how many numbers a tensor has along its one dimension; 0: it has others.

    Constants may have more dimensions, of size 1.
    """
    dims = form.shapes[name].dims
    if name not in form.constants:
        return dims[0] if len(dims) == 1 else 0
    long = [size for size in dims if size > 1]
    return long[0] if len(long) == 1 else 0
